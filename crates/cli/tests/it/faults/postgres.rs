//! Gateways that share a PostgreSQL server: crowds at two of them, connections cut around commits, servers that crash, stall,
//! run out of disk, end connections, take rights away or set their clocks; processes that are killed and paused. Judged as everything here is, by [`super::history`].

mod clocks;
mod crashes;
mod crowds;
mod cuts;
mod full_disk;
mod load;
mod processes;
mod rights;
mod stalls;
mod terminated;

use super::site::Site;
use crate::server::SERVER;

/// A site on a new database.
async fn site() -> Site {
    Site::on_server(SERVER.address()).await
}
