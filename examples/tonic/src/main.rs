//! A gRPC service whose orders are placed once. Run it as its README says.

use std::sync::Arc;

use example_tonic::Orders;
use oncekey::{MemoryStore, Oncekey, Options};
use tonic::transport::{Server, server::TcpIncoming};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".to_owned());
    // Forgets everything at the end; `oncekey::sqlite::open` gives a store that doesn't.
    let oncekey = Oncekey::start(Arc::new(MemoryStore::default()), Options::default()).await?;

    let incoming = TcpIncoming::bind(address.parse()?)?;
    eprintln!("listening on http://{}", incoming.local_addr()?);
    let server = Server::builder().layer(oncekey.layer()).add_service(Orders::default());
    server.serve_with_incoming_shutdown(incoming, interrupted()).await?;
    oncekey.shutdown().await;
    Ok(())
}

async fn interrupted() {
    let _ = tokio::signal::ctrl_c().await;
}
