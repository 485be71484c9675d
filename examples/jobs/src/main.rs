//! A consumer of messages that are delivered at least once, and handled once. Run it as its README says.

use std::io::Write as _;
use std::sync::Arc;

use oncekey::{Attempt, Engine, Job, Once, Settings, SystemClock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let database = arguments.next().ok_or("name a database file, then the messages that were delivered")?;
    let engine = Engine::start(oncekey::sqlite::open(database)?, Arc::new(SystemClock), Settings::default()).await?;

    for message in arguments {
        let job = Job::new("send-invoice", "acc-1", &message)?.with_input("12 EUR");
        let said = match engine.once(job, send_invoice).await {
            Once::Done { result, replayed } => {
                let result = String::from_utf8(result.unwrap_or_default().into())?;
                format!("{result}{}", if replayed { " (earlier)" } else { "" })
            }
            Once::Unknown => "may have been sent: look into it".to_owned(),
            other => format!("not now: {other:?}; deliver it again"),
        };
        writeln!(std::io::stdout(), "{message}: {said}")?;
    }
    engine.shutdown(std::time::Duration::from_secs(70)).await;
    Ok(())
}

/// Whatever must not happen twice.
async fn send_invoice(attempt: Attempt) -> Result<String, std::io::Error> {
    tokio::task::yield_now().await;
    Ok(format!("invoice sent under {}", attempt.id))
}
