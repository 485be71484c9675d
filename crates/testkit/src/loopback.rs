//! Ports and directories that no other test uses.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use tempfile::TempDir;

/// A loopback address on which nothing listens.
///
/// The port is free when this returns and the system doesn't hand it out again soon, but it isn't reserved: for programs
/// that take a port and can't be asked which one they got, and for tests that need a refused connection.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A directory of the test's own, deleted with everything in it when dropped.
pub fn scratch_dir() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("oncekey-test-").tempdir()
}
