//! What a process costs, as the kernel counts it (`/proc`, so Linux only).

use std::fs;
use std::io;
use std::time::Duration;

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
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = after_name.split_whitespace().skip(11).map(str::parse::<u64>);
    let (Some(Ok(user)), Some(Ok(system))) = (fields.next(), fields.next()) else { return Err(missing("utime")) };
    let ticks = user + system;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis(ticks * 1000 / per_second))
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc has no {name} for a process that has ended"))
}
