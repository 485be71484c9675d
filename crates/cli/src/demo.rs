//! `oncekey demo`: the whole thing on one machine. An orders API that knows nothing of idempotency, the gateway in front of
//! it, an embedded store, and two commands to try.

pub(crate) mod orders;

use std::net::{Ipv4Addr, SocketAddr};

use oncekey_admin::Tokens;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::exit::Failure;
use crate::gateway::{self, Listeners};
use crate::output;
use crate::settings::{Environment, Flag, Purpose, Sources, load};
use crate::tls::Tls;

/// Where the demo's store is, in the working directory.
const STORE: &str = "sqlite:oncekey-demo.db";

/// Runs the demo until a signal ends it. Nothing but its store file is left behind.
pub(crate) async fn run() -> Result<(), Failure> {
    let front = listen("gateway", 8080).await?;
    let api = listen("orders API", 3000).await?;
    let admin = listen("dashboard", 9464).await?;
    let addresses = Addresses { front: front.address, api: api.address, admin: admin.address };
    let sources =
        Sources { file: None, flags: addresses.flags(), environment: Environment::default(), purpose: Purpose::Serve };
    let loaded = load(&sources).map_err(Failure::usage)?;

    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    let served = orders::serve(api.listener, stop.clone().cancelled_owned());
    tasks.spawn(async move {
        if let Err(error) = served.await {
            tracing::error!(%error, "the orders API ended");
        }
    });
    output::print(&addresses.greeting(&fresh_key()?))?;
    let listeners = Listeners { front: front.listener, admin: admin.listener };
    let ended = gateway::run(loaded, None, Tokens::default(), Tls::default(), listeners).await;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    ended
}

/// A key that no earlier demo has used: the store keeps its records, and the orders API forgets its orders.
fn fresh_key() -> Result<String, Failure> {
    Ok(format!("order-{:04x}", getrandom::u32().map_err(Failure::failed)? & 0xffff))
}

struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Listens on the port that the documentation names, or on a free one.
async fn listen(what: &str, port: u16) -> Result<Bound, Failure> {
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("port {port} of the {what} can't be had ({error}); a free one is taken");
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(Failure::failed)?
        }
    };
    let address = listener.local_addr().map_err(Failure::failed)?;
    Ok(Bound { listener, address })
}

struct Addresses {
    front: SocketAddr,
    api: SocketAddr,
    admin: SocketAddr,
}

impl Addresses {
    /// The gateway's settings. The demo is always the same, so neither a file nor the environment has a say in it.
    fn flags(&self) -> Vec<Flag> {
        let flag = |name, setting, text: String| Flag { name, setting, text };
        vec![
            flag("--listen", "listen", self.front.to_string()),
            flag("--upstream", "upstream", format!("http://{}", self.api)),
            flag("--store", "store", STORE.to_owned()),
            flag("--admin", "admin.listen", self.admin.to_string()),
        ]
    }

    fn greeting(&self, key: &str) -> String {
        let Self { front, api, admin } = self;
        format!(
            r#"oncekey demo
  gateway         http://{front}
  orders API      http://{api}   (behind it; knows nothing of idempotency)
  dashboard       http://{admin}
  store           ./oncekey-demo.db

Send an order, twice; it is created once:

  curl -i http://{front}/orders -H 'X-Account-Id: acc-1' -H 'Idempotency-Key: {key}' \
    -H 'Content-Type: application/json' \
    -d '{{"items":[{{"sku":"SKU-1","qty":2}}],"amount":1200,"currency":"RUB"}}'

The same key for another amount is refused:

  curl -i http://{front}/orders -H 'X-Account-Id: acc-1' -H 'Idempotency-Key: {key}' \
    -H 'Content-Type: application/json' \
    -d '{{"items":[{{"sku":"SKU-1","qty":2}}],"amount":1201,"currency":"RUB"}}'

Ctrl-C ends it.

"#
        )
    }
}
