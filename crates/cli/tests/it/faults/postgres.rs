//! Gateways that share a PostgreSQL server: crowds at two of them, connections cut around commits, servers that crash, processes
//! that are killed and paused. Judged as everything here is, by [`super::history`].

mod crashes;
mod crowds;
mod cuts;
mod load;
mod processes;

use super::site::Site;
use crate::server::SERVER;

/// A site on a new database.
async fn site() -> Site {
    Site::on_server(SERVER.address()).await
}
