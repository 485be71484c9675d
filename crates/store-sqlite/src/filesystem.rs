//! Which file systems keep what was written to them (G5).

use std::path::Path;

/// File systems whose promises are too weak for a claim, by the magic number that Linux gives them.
const WEAK: [(u32, &str); 19] = [
    (0x794c_7630, "overlayfs, which is gone with its container"),
    (0x0102_1994, "tmpfs, which is gone with the machine"),
    (0x8584_58f6, "ramfs, which is gone with the machine"),
    (0x0000_6969, "NFS, a network file system"),
    (0x0000_517b, "SMB, a network file system"),
    (0xfe53_4d42, "SMB, a network file system"),
    (0xff53_4d42, "CIFS, a network file system"),
    (0x0102_1997, "9p, a file system of another machine"),
    (0x00c3_6400, "Ceph, a network file system"),
    (0x5346_414f, "AFS, a network file system"),
    (0x7375_7245, "Coda, a network file system"),
    (0x4750_4653, "GPFS, a network file system"),
    (0x0bd0_0bd0, "Lustre, a network file system"),
    (0x0116_1970, "GFS2, a shared file system"),
    (0x7461_636f, "OCFS2, a shared file system"),
    (0x1983_0326, "BeeGFS, a network file system"),
    (0x786f_4256, "vboxsf, a file system of another machine"),
    (0xbacb_acbc, "vmhgfs, a file system of another machine"),
    (0x6573_5546, "FUSE, which doesn't say where it keeps its files"),
];

/// What is weak about the file system that a file is on; `None` if nothing is known to be.
pub(crate) fn weakness(file: &Path) -> Option<String> {
    magic(file).map_or_else(
        || Some("one that can't be told".to_owned()),
        |magic| WEAK.iter().find(|(weak, _)| *weak == magic).map(|(_, name)| (*name).to_owned()),
    )
}

#[cfg(target_os = "linux")]
fn magic(file: &Path) -> Option<u32> {
    let found = rustix::fs::statfs(file).ok()?;
    // The type's width differs between machines; the numbers are 32 bits wide on all.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only the low 32 bits are used")]
    Some(found.f_type as u32)
}

/// What can't be read counts as its weakest value (G4).
#[cfg(not(target_os = "linux"))]
fn magic(_file: &Path) -> Option<u32> {
    None
}
