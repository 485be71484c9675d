//! TLS on both sides of the gateway: what clients get, whom certificates say that they are, what broken TLS with the
//! upstream leaves of an operation, and certificates that change while requests run.

mod clients;
mod files;
mod listener;
mod renewal;
mod upstreams;

use std::path::PathBuf;

pub(super) use oncekey_testkit::tls::Authority;
use oncekey_testkit::tls::{Issued, Trust};
use oncekey_testkit::{Client, RawClient, TempDir};

use super::stand::Gateway;

/// An authority, and a directory for what it issues.
pub(super) struct Ground {
    directory: TempDir,
    pub(super) authority: Authority,
}

impl Ground {
    pub(super) fn new() -> Self {
        let directory = oncekey_testkit::scratch_dir().expect("a directory");
        let ground = Self { directory, authority: Authority::new("the shop's root") };
        ground.write("ca.pem", &ground.authority.pem());
        ground.put("server", &ground.authority.issue(&["localhost", "127.0.0.1"]));
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).expect("written");
    }

    pub(super) fn put(&self, name: &str, issued: &Issued) {
        issued.write(self.directory.path(), name).expect("written");
    }

    /// `NAME = "PATH"`, for a file of this directory.
    fn line(&self, setting: &str, file: &str) -> String {
        format!("{setting} = {:?}\n", self.path(file).display().to_string())
    }

    /// `[tls]` with the server's certificate.
    pub(super) fn tls(&self) -> String {
        format!("[tls]\n{}{}", self.line("cert", "server.pem"), self.line("key", "server.key"))
    }

    /// `[upstream_tls]` with the authority.
    pub(super) fn upstream_tls(&self) -> String {
        format!("[upstream_tls]\n{}", self.line("ca", "ca.pem"))
    }

    pub(super) fn trust(&self) -> Trust {
        self.authority.trusted_for("localhost")
    }
}

pub(super) fn client(gateway: &Gateway, trust: &Trust) -> Client {
    Client::over_tls(gateway.address, trust.clone())
}

async fn raw(gateway: &Gateway, trust: &Trust) -> RawClient {
    RawClient::connect_tls(gateway.address, trust).await.expect("TLS is established")
}
