//! Where a key set is, and getting it from there: whole, bounded in bytes and in time.

use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use reqwest::{Client, Url, redirect};
use tokio::task::spawn_blocking;

use crate::tls;

/// The largest key set, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// How long whoever publishes a key set may take to give it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a key set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Jwks {
    /// `file:PATH`.
    File(PathBuf),
    /// `https://…`; `http://…` on this machine only, since whoever can change the keys on their way can forge any scope.
    Url(Url),
}

impl FromStr for Jwks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", "")) => return Err("it needs a path after the colon".to_owned()),
            Some(("file", path)) => return Ok(Self::File(path.into())),
            _ => {}
        }
        let url: Url = text.parse().map_err(|_| "it is no URL")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it can't hold credentials".to_owned());
        }
        match url.scheme() {
            "https" => Ok(Self::Url(url)),
            "http" if is_loopback(&url) => Ok(Self::Url(url)),
            "http" => Err("http:// is for this machine only: whoever can change the keys on their way can forge any \
                           scope"
                .to_owned()),
            _ => Err("its scheme is none of a key set".to_owned()),
        }
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip: Result<IpAddr, _> = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

impl fmt::Display for Jwks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Url(url) => url.fmt(f),
        }
    }
}

/// Gets a key set from where it is.
pub(super) enum Fetch {
    File(PathBuf),
    Url(Client, Url),
    /// What a test says.
    #[cfg(test)]
    Test(Box<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>),
}

impl Fetch {
    pub(super) fn new(jwks: &Jwks) -> Result<Self, String> {
        match jwks {
            Jwks::File(path) => Ok(Self::File(path.clone())),
            Jwks::Url(url) => client(url).map(|client| Self::Url(client, url.clone())),
        }
    }

    /// The set as it is now. May be repeated.
    pub(super) async fn fetch(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::File(path) => {
                let path = path.clone();
                let read = spawn_blocking(move || read(&path)).await.map_err(|error| error.to_string())?;
                read.map_err(|error| format!("it can't be read: {error}")).and_then(bounded)
            }
            Self::Url(client, url) => get(client, url).await,
            #[cfg(test)]
            Self::Test(fetch) => fetch(),
        }
    }

    /// Whether looking again costs next to nothing.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// What a file holds, up to more than a key set may. Blocking.
pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut text)?;
    Ok(text)
}

pub(super) fn bounded(text: Vec<u8>) -> Result<Vec<u8>, String> {
    if text.len() as u64 > LARGEST { Err(format!("it is larger than {LARGEST} bytes")) } else { Ok(text) }
}

/// A client that trusts what the system trusts (`SSL_CERT_FILE` included) and follows no redirect.
fn client(url: &Url) -> Result<Client, String> {
    let tls = tls::client_config(true).map_err(|error| format!("the system's certificates can't be read: {error}"))?;
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .timeout(PATIENCE)
        .user_agent(concat!("oncekey/", env!("CARGO_PKG_VERSION")));
    // No proxy knows the way to this machine.
    let client = if is_loopback(url) { client.no_proxy() } else { client };
    client.build().map_err(|error| error.to_string())
}

async fn get(client: &Client, url: &Url) -> Result<Vec<u8>, String> {
    let failed = |error: reqwest::Error| {
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        causes.fold("it can't be fetched".to_owned(), |text, cause| format!("{text}: {cause}"))
    };
    let mut answer = client.get(url.clone()).send().await.map_err(failed)?;
    if answer.status() != reqwest::StatusCode::OK {
        return Err(format!("it was answered with {}", answer.status().as_u16()));
    }
    let mut text = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(failed)? {
        text.extend_from_slice(&piece);
        if text.len() as u64 > LARGEST {
            break;
        }
    }
    bounded(text)
}
