//! PgBouncer in transaction mode: each transaction may run on another of the server's connections.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::watch::Watched;
use super::{PostgresServer, give, run, unprivileged};
use crate::{PATIENCE, free_address};

/// A running PgBouncer. Gone with the value, or with the process.
#[derive(Debug)]
pub struct Pooler {
    address: SocketAddr,
    _watched: Watched,
}

/// How often it is asked whether it listens: it goes to the background before it does.
const ASK_AGAIN: Duration = Duration::from_millis(20);

impl Pooler {
    /// Starts Debian's PgBouncer (1.18: from before it knew prepared statements) in front of a server, for all its databases.
    /// Blocks until it listens.
    pub fn start(server: &PostgresServer) -> io::Result<Self> {
        Self::start_with(server, 10)
    }

    /// The same with so many of the server's connections for each database.
    pub fn start_with(server: &PostgresServer, connections: u32) -> io::Result<Self> {
        let directory = crate::scratch_dir()?;
        give(directory.path())?;
        let (address, to) = (free_address()?, server.address());
        let path = directory.path().to_owned();
        let path = path.display();
        let configuration = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = {}\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {path}/users.txt\npool_mode = transaction\nserver_idle_timeout = 5\n\
             max_client_conn = 1000\ndefault_pool_size = {connections}\nlogfile = {path}/log\npidfile = {path}/pid\n",
            to.ip(),
            to.port(),
            address.ip(),
            address.port(),
        );
        for (name, content) in [("users.txt", "\"postgres\" \"\"\n"), ("pgbouncer.ini", &configuration)] {
            fs::write(directory.path().join(name), content)?;
            give(&directory.path().join(name))?;
        }
        let ini = directory.path().join("pgbouncer.ini");
        let watched = Watched::over(directory, "pid")?;
        run(unprivileged(Path::new("/usr/sbin/pgbouncer")).args(["-d", "-q"]).arg(ini))?;
        for _ in 0..PATIENCE.as_millis() / ASK_AGAIN.as_millis() {
            if TcpStream::connect(address).is_ok() {
                return Ok(Self { address, _watched: watched });
            }
            std::thread::sleep(ASK_AGAIN);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "PgBouncer doesn't listen"))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a database by way of it.
    pub fn url(&self, database: &str) -> String {
        PostgresServer::url_by(self.address, database)
    }
}
