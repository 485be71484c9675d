//! Ground to stand on: ports and directories that no other test uses, and files enough for many connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

/// A loopback address on which nothing listens.
///
/// The port is free when this returns and the system doesn't hand it out again soon, but it isn't reserved: for programs
/// that take a port and can't be asked which one they got, and for tests that need a refused connection.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Two of them, which differ: let go of one by one, the system may hand the same port out twice.
pub fn free_addresses() -> io::Result<[SocketAddr; 2]> {
    let (one, two) = (TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    Ok([one.local_addr()?, two.local_addr()?])
}

/// A directory of the test's own, deleted with everything in it when dropped.
pub fn scratch_dir() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("oncekey-test-").tempdir()
}

/// Raises how many files and sockets this process, and each that it starts from now on, may have open to the most that
/// the system allows, and gives that number (`None`: no limit). For tests with thousands of connections.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum)
}
