//! TLS as far as it goes without HTTP: files, names, renewal, and every configuration side by side.

mod files;
mod names;
mod renewal;
mod sides;

use std::path::{Path, PathBuf};

use oncekey_testkit::TempDir;
use oncekey_testkit::tls::{Authority, Issued};

use super::{Finding, ListenerTls, UpstreamTls};
use crate::config::{TlsConfig, UpstreamTlsConfig};

/// A directory with what a listener needs.
struct Files {
    directory: TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Self {
        let files = Self { directory: oncekey_testkit::scratch_dir().unwrap(), authority: Authority::new("test root") };
        files.put("server", &files.authority.issue(&["localhost"]));
        files.write("ca.pem", files.authority.pem());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, issued: &Issued) {
        issued.write(self.directory.path(), name).unwrap();
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// The listener's configuration: `server.pem`, `server.key`.
    fn listener(&self) -> TlsConfig {
        TlsConfig { cert: self.path("server.pem"), key: self.path("server.key"), client_ca: None }
    }

    /// The upstream's: `ca.pem`.
    fn upstream(&self) -> UpstreamTlsConfig {
        let ca = Some(self.path("ca.pem"));
        UpstreamTlsConfig { ca, cert: None, key: None, server_name: "localhost".to_owned() }
    }

    /// Why a listener on these files is refused, without the directory.
    fn refusal(&self) -> String {
        self.without_directory(&ListenerTls::load(&self.listener()).unwrap_err())
    }

    fn without_directory(&self, finding: &Finding) -> String {
        let directory = format!("{}/", Path::display(self.directory.path()));
        finding.to_string().replace(&directory, "")
    }
}
