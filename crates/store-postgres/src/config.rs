//! What can be set about the store, and reading it from a URL.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oncekey_store::Clock;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::promise::Declared;

/// How the server's certificate is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Not at all (`sslmode=prefer` and `require`): encrypted, but whoever answers is believed.
    Nothing,
    /// It must be signed by one of the roots (`verify-ca`).
    Authority(Roots),
    /// And it must be the host's (`verify-full`).
    Host(Roots),
}

/// Whose signature counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// The machine's.
    System,
    /// Those in a PEM file (`sslrootcert`).
    File(PathBuf),
}

/// Where the server is, and how much the store asks of it.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) config: Config,
    pub(crate) verify: Verify,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Connections that the store keeps, at least four: one for claims, one for outcomes, one for what may scan, and the
    /// rest for reading records. A connection carries many calls at a time. Default 4.
    pub connections: u32,
    /// Claims, and as many outcomes, that may wait for their connection; past it a call fails at once as not applied.
    /// Default 8192.
    pub queue: usize,
    /// How long the server may take over one batch or one reading before its connection is given up: a hung server must not
    /// hold everyone for ever. Nothing is cancelled on the server by it. Default 10s.
    pub patience: Duration,
    /// How long a claim or an outcome waits for a row that another transaction holds. Default 1s.
    pub lock_timeout: Duration,
    /// What is known about the server where it can't be read (G4). Default: nothing.
    pub declared: Declared,
}

/// A URL that names no PostgreSQL store. No message repeats the URL, since it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidUrl(String);

/// Shown to the server's operators where the URL names no other.
const APPLICATION: &str = "oncekey";

impl PostgresOptions {
    /// Reads `postgres://USER[:PASSWORD]@HOST[:PORT][,HOST[:PORT]…]/DATABASE[?PARAMETER=VALUE&…]`, as libpq does: `sslmode`
    /// (`disable`, `prefer`, `require`, `verify-ca`, `verify-full`), `sslrootcert`, `connect_timeout`,
    /// `application_name` and the others of libpq that `tokio-postgres` knows. Of several hosts the one that takes writes is
    /// used (`target_session_attrs=read-write`, and nothing else): claims never read a replica (G4).
    pub fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        let invalid = |what: &str| InvalidUrl(what.to_owned());
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(invalid("it must begin with postgres:// or postgresql://"));
        }
        let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut rest, mut mode, mut roots) = (Vec::new(), None, None);
        for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').ok_or_else(|| invalid("a parameter needs the form NAME=VALUE"))? {
                ("sslmode", value) => mode = Some(value),
                ("sslrootcert", value) => {
                    roots = Some(decoded(value).ok_or_else(|| invalid("sslrootcert is no path"))?);
                }
                ("target_session_attrs", "read-write" | "primary") => {}
                ("target_session_attrs", _) => {
                    return Err(invalid("target_session_attrs can only be read-write: claims never read a replica"));
                }
                _ => rest.push(pair),
            }
        }
        let plain = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        // The cause names the parameter at fault; tokio-postgres repeats no value.
        let mut config: Config = plain.parse().map_err(|error| match std::error::Error::source(&error) {
            Some(cause) => InvalidUrl(cause.to_string()),
            None => invalid("it can't be read"),
        })?;
        if config.get_hosts().is_empty() {
            return Err(invalid("it needs a host"));
        }
        let verify = verification(mode, roots.as_deref())?;
        config.ssl_mode(match mode {
            Some("disable") => SslMode::Disable,
            None | Some("prefer") => SslMode::Prefer,
            Some(_) => SslMode::Require,
        });
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Self::set_defaults(&mut config);
        Ok(Self {
            config,
            verify,
            clock: None,
            connections: 4,
            queue: 8192,
            patience: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(1),
            declared: Declared::default(),
        })
    }

    /// What notices a peer that is gone without a word, unless the URL says otherwise.
    fn set_defaults(config: &mut Config) {
        if config.get_application_name().is_none() {
            config.application_name(APPLICATION);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(15));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_idle(Duration::from_secs(15));
            config.keepalives_interval(Duration::from_secs(5));
            config.keepalives_retries(3);
        }
    }

    /// Goes by this clock instead of the server's. For tests that turn time; nodes with clocks of their own don't agree.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The place, for people: hosts, ports and database, without user and password.
    pub fn place(&self) -> String {
        let ports = self.config.get_ports();
        let port = |at: usize| ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432);
        let name = |(at, host): (usize, &Host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(at)),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{}", path.display(), port(at)),
        };
        let hosts: Vec<_> = self.config.get_hosts().iter().enumerate().map(name).collect();
        format!("postgres://{}/{}", hosts.join(","), self.config.get_dbname().unwrap_or_default())
    }
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions").field("place", &self.place()).finish_non_exhaustive()
    }
}

fn verification(mode: Option<&str>, roots: Option<&str>) -> Result<Verify, InvalidUrl> {
    let named = roots.map(|roots| match roots {
        "system" => Roots::System,
        path => Roots::File(path.into()),
    });
    match (mode, named) {
        (None | Some("disable" | "prefer" | "require"), None) | (Some("disable" | "prefer") | None, Some(_)) => {
            Ok(Verify::Nothing)
        }
        // As libpq: who names roots and asks for encryption wants them looked at.
        (Some("require" | "verify-ca"), Some(roots)) => Ok(Verify::Authority(roots)),
        (Some("verify-ca"), None) => Ok(Verify::Authority(Roots::System)),
        (Some("verify-full"), roots) => Ok(Verify::Host(roots.unwrap_or(Roots::System))),
        (Some(_), _) => {
            Err(InvalidUrl("sslmode is one of disable, prefer, require, verify-ca, verify-full".to_owned()))
        }
    }
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail.get(2..)?;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> PostgresOptions {
        PostgresOptions::from_url(url).expect("a URL")
    }

    fn refusal(url: &str) -> String {
        PostgresOptions::from_url(url).expect_err("refused").to_string()
    }

    #[test]
    fn the_place_hides_user_and_password() {
        let several = options("postgresql://user:secret@one,two:5433/orders?application_name=x");
        assert_eq!(several.place(), "postgres://one:5432,two:5433/orders");
        assert!(!format!("{several:?}").contains("secret"));
        assert!(!format!("{several:?}").contains("user"));
    }

    #[test]
    fn modes_of_encryption_are_libpqs() {
        let of = |parameters: &str| options(&format!("postgres://u@h/d?{parameters}"));
        let file = || Roots::File("/etc/a b.pem".into());
        for (parameters, mode, verify) in [
            ("", SslMode::Prefer, Verify::Nothing),
            ("sslmode=disable", SslMode::Disable, Verify::Nothing),
            ("sslmode=prefer", SslMode::Prefer, Verify::Nothing),
            ("sslmode=require", SslMode::Require, Verify::Nothing),
            ("sslmode=require&sslrootcert=/etc/a%20b.pem", SslMode::Require, Verify::Authority(file())),
            ("sslmode=verify-ca&sslrootcert=/etc/a%20b.pem", SslMode::Require, Verify::Authority(file())),
            ("sslmode=verify-full", SslMode::Require, Verify::Host(Roots::System)),
            ("sslrootcert=system&sslmode=verify-full", SslMode::Require, Verify::Host(Roots::System)),
        ] {
            let options = of(parameters);
            assert_eq!((options.config.get_ssl_mode(), options.verify), (mode, verify), "{parameters}");
        }
    }

    #[test]
    fn only_a_primary_will_do() {
        for parameters in ["", "?target_session_attrs=read-write", "?target_session_attrs=primary"] {
            let options = options(&format!("postgres://u@h{parameters}"));
            assert_eq!(options.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
        assert!(refusal("postgres://u@h/d?target_session_attrs=any").contains("replica"));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_url() {
        for url in [
            "mysql://user:secret@h/d",
            "postgres://user:secret@/d",
            "postgres://user:secret@h:x/d",
            "postgres://user:secret@h/d?sslmode=secret",
            "postgres://user:secret@h/d?nonsense=secret",
            "postgres://user:secret@h/d?sslmode",
            "postgres://user:secret@h/d?sslrootcert=%zz&password=secret",
        ] {
            assert!(!refusal(url).contains("secret"), "{}", refusal(url));
        }
        assert!(refusal("postgres://h/d?nonsense=1").contains("nonsense"));
    }
}
