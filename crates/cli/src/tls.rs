//! TLS on both sides: the listener's and the upstream's.
//!
//! Owns: which files are read and what is wrong with them, the rustls configurations made from them, their renewal while
//! the program runs, and who a client certificate says that it is. Leaves to others: sockets (`front`, `upstream`), which
//! setting names which file (`settings`), what an identity is good for (the layer).
//!
//! Every configuration here is given its provider. A process-wide default would belong to whichever library set it first.

mod distinguished_name;
mod identity;
mod listener;
mod live;
mod pem;
#[cfg(test)]
mod tests;
mod upstream;

use std::fmt;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

pub(crate) use identity::{Unreadable, identity};
pub(crate) use listener::ListenerTls;
pub(crate) use live::keep_up_to_date;
pub(crate) use upstream::{UpstreamTls, why};

/// The one provider of the program's cryptography.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// What the program's own requests (probes, spans) run on, which trust what the system trusts. The system's roots are read only for
/// those that are `secure`: a container may have none.
pub(crate) fn client_config(secure: bool) -> Result<ClientConfig, rustls::Error> {
    let tls = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let tls = if secure { tls.with_platform_verifier()? } else { tls.with_root_certificates(RootCertStore::empty()) };
    Ok(tls.with_no_client_auth())
}

/// What both sides of the gateway run on; without a part where that side is plain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    /// For the listener.
    pub(crate) listener: Option<Arc<ListenerTls>>,
    /// For connections to the upstream.
    pub(crate) upstream: Option<Arc<UpstreamTls>>,
}

/// What is wrong or doubtful about a file that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The setting.
    pub(crate) setting: &'static str,
    /// What is wrong, in one sentence that names the file.
    pub(crate) text: String,
    /// Whether the file couldn't be read at all: it may be there where the program will run.
    pub(crate) absent: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.text)
    }
}
