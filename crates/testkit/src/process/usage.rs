//! What a process costs, as the kernel counts it (`/proc`, so Linux only).

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::Pid;

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident now (`VmRSS`).
    pub resident: u64,
    /// The most that was resident since the start (`VmHWM`).
    pub peak: u64,
    /// The most address space since the start, used or not (`VmPeak`).
    pub reserved: u64,
}

pub(super) fn memory(pid: i32) -> io::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|text| text.parse::<u64>().ok());
        kibibytes.map(|kibibytes| kibibytes * 1024).ok_or_else(|| missing(name))
    };
    Ok(Memory { resident: bytes("VmRSS:")?, peak: bytes("VmHWM:")?, reserved: bytes("VmPeak:")? })
}

pub(super) fn cpu_time(pid: i32) -> io::Result<Duration> {
    let fields = fields(pid)?;
    Ok(ticks(fields[UTIME] + fields[UTIME + 1]))
}

/// CPU time of a process, of its children, and of those that it has had.
pub(crate) fn family_cpu_time(pid: i32) -> io::Result<Duration> {
    let mut total: u64 = fields(pid)?[UTIME..].iter().sum();
    for child in children(pid)? {
        // One that has ended meanwhile is counted with its parent's next time.
        if let Ok(fields) = fields(child.as_raw_nonzero().get()) {
            total += fields[UTIME] + fields[UTIME + 1];
        }
    }
    Ok(ticks(total))
}

/// The children that a process has at the moment.
pub(crate) fn children(pid: i32) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for process in fs::read_dir("/proc")? {
        let Some(child) = process?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if fields(child).is_ok_and(|fields| fields[PARENT] == u64::from(pid.unsigned_abs())) {
            children.extend(Pid::from_raw(child));
        }
    }
    Ok(children)
}

/// Where in [`fields`] the parent's pid stands, and the times: user, system, and the same of children that were waited for.
const PARENT: usize = 0;
const UTIME: usize = 10;

/// Of `/proc/PID/stat`, the fields from the parent's pid to the last time.
fn fields(pid: i32) -> io::Result<[u64; 14]> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // Some in between may be negative, and aren't asked for.
    let fields = after_name.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0));
    fields.take(14).collect::<Vec<u64>>().try_into().map_err(|_| missing("utime"))
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc has no {name} for a process that has ended"))
}
