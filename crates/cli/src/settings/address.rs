//! Where things are: the upstream, the store, a secret. Each is parsed once; none of them ever holds a password, and no
//! message about a wrong one repeats it, since it may.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;
use oncekey_store_postgres::{InvalidUrl, PostgresOptions};

use super::environment::Environment;

/// The proxied API: `http://HOST[:PORT]` or `https://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// Host and port as written, for people and for a `Host` that has to be made.
    pub(crate) authority: Authority,
    /// The host to resolve, without the brackets of an IPv6 address.
    pub(crate) host: String,
    /// The port; where none is written 80, for https 443.
    pub(crate) port: u16,
    /// Whether it is https.
    pub(crate) secure: bool,
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it needs a scheme")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("its scheme is no upstream's".to_owned()),
        };
        if rest.contains('@') {
            return Err("it can't hold credentials".to_owned());
        }
        if rest.trim_end_matches('/').contains(['/', '?', '#']) {
            return Err("it can't hold a path or a query; the request's own are used".to_owned());
        }
        let uri: Uri = text.parse().map_err(|_| "it is no URL")?;
        let authority = uri.authority().ok_or("it needs a host")?.clone();
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let written_port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        let port = match written_port {
            "" if secure => 443,
            "" => 80,
            _ => authority.port_u16().filter(|port| *port > 0).ok_or("its port is none from 1 to 65535")?,
        };
        if host.is_empty() {
            return Err("it needs a host".to_owned());
        }
        Ok(Self { authority, host, port, secure })
    }
}

impl Upstream {
    /// The host as an address, if it is written as one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

/// Which store keeps the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// `sqlite:PATH`, relative to the working directory.
    Sqlite(PathBuf),
    /// `postgres://…` or `postgresql://…`.
    Postgres(PostgresUrl),
    /// `memory:`, which forgets everything at exit.
    Memory,
}

/// A PostgreSQL server and database, as a URL that may hold a password. It shows itself without user, password and parameters.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PostgresUrl {
    url: String,
    place: String,
}

impl PostgresUrl {
    /// What the URL says.
    pub(crate) fn options(&self) -> Result<PostgresOptions, InvalidUrl> {
        PostgresOptions::from_url(&self.url)
    }
}

impl FromStr for PostgresUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let options = PostgresOptions::from_url(url).map_err(|error| error.to_string())?;
        Ok(Self { url: url.to_owned(), place: options.place() })
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

const LATER_STORES: [&str; 4] = ["redis", "rediss", "redis-cluster", "redis-sentinel"];

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once(':').ok_or("it needs a scheme")?;
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err("nothing may follow `memory:`".to_owned()),
            "sqlite" => sqlite(rest),
            "postgres" | "postgresql" => text.parse().map(Self::Postgres),
            _ if LATER_STORES.contains(&scheme) => Err(format!("{scheme}: is not in this version")),
            _ => Err("its scheme is no store's".to_owned()),
        }
    }
}

fn sqlite(path: &str) -> Result<StoreUrl, String> {
    if path.is_empty() {
        Err("`sqlite:` needs the path of a file".to_owned())
    } else if path == ":memory:" {
        Err("a store in memory is `memory:`".to_owned())
    } else if path.starts_with("//") {
        Err("a path stands right after `sqlite:`, without `//` (sqlite:/var/lib/oncekey.db)".to_owned())
    } else if path.contains(['?', '\0']) {
        Err("`sqlite:` takes no parameters".to_owned())
    } else {
        Ok(StoreUrl::Sqlite(path.into()))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => f.write_str(&url.place),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

/// Where a secret is kept. Settings hold this, never the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretRef {
    /// `env:NAME`.
    Environment(String),
    /// `file:PATH`; white space around the content doesn't count.
    File(PathBuf),
}

/// A secret; it shows itself to nobody by accident.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

/// The longest secret, in bytes: what fits a header field with room to spare.
const LONGEST_SECRET: usize = 4096;

impl FromStr for SecretRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("env" | "file", "")) => Err("it needs a name after the colon".to_owned()),
            Some(("env", name)) if name.contains(['=', '\0']) => Err("no variable has such a name".to_owned()),
            Some(("env", name)) => Ok(Self::Environment(name.to_owned())),
            Some(("file", path)) => Ok(Self::File(path.into())),
            _ => Err("a secret is never written here; name where it is kept".to_owned()),
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl SecretRef {
    /// Reads the secret: visible ASCII, since it travels in a header field. Errors say what is missing, never what was
    /// found.
    pub(crate) fn read(&self, environment: &Environment) -> Result<Secret, String> {
        self.read_with(environment, &[])
    }

    /// Reads a secret that is a field's whole value, and may hold spaces therefore (`Bearer …`).
    pub(crate) fn read_field(&self, environment: &Environment) -> Result<Secret, String> {
        self.read_with(environment, b" ")
    }

    fn read_with(&self, environment: &Environment, also: &[u8]) -> Result<Secret, String> {
        let text = match self {
            Self::Environment(name) => environment.get(name)?.ok_or_else(|| format!("{name} is not set"))?.to_owned(),
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("{} can't be read: {error}", path.display()))?
                .trim()
                .to_owned(),
        };
        if text.is_empty() {
            return Err(format!("{self} is empty"));
        }
        if text.len() > LONGEST_SECRET || !text.bytes().all(|byte| byte.is_ascii_graphic() || also.contains(&byte)) {
            return Err(format!("{self} must hold 1 to {LONGEST_SECRET} visible ASCII characters"));
        }
        Ok(Secret(text))
    }
}

impl Secret {
    /// The secret itself.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
