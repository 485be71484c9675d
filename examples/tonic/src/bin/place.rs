//! Places an order and says what came of it: `place SERVER KEY SKU`.

use std::io::Write as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [server, key, sku] = &arguments[..] else { return Err("say SERVER, KEY and SKU".into()) };
    let mut out = std::io::stdout();
    match example_tonic::place(server, key, sku).await {
        Ok(placed) => {
            let replayed = placed.metadata().contains_key("idempotent-replayed");
            writeln!(out, "order {} placed{}", placed.get_ref().number, if replayed { " (replayed)" } else { "" })?;
        }
        Err(status) => {
            let problem = status.metadata().get("oncekey-problem").and_then(|code| code.to_str().ok());
            writeln!(out, "{:?}: {} [{}]", status.code(), status.message(), problem.unwrap_or("the service's own"))?;
        }
    }
    Ok(())
}
