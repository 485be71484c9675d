//! A gateway under test, and the requests that most tests send it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use oncekey_testkit::{Answer, Call, Client, PATIENCE, Process, RawAnswer, RawClient, TempDir, free_addresses};

/// The program, with an environment of its own.
pub(crate) fn oncekey() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncekey"));
    command.env_clear();
    command
}

/// A running `oncekey serve`, on a SQLite file unless a test says otherwise, killed when dropped.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Its configuration.
    pub(crate) file: PathBuf,
    /// Its store and its configuration; absent where those belong to another gateway.
    directory: Option<TempDir>,
    store: String,
}

impl Gateway {
    /// Starts one with the given settings (TOML) and waits until it is ready. No upstream: the settings name it.
    pub(crate) async fn start(upstream: &str, settings: &str) -> Self {
        Self::breaking("", upstream, settings).await
    }

    /// Starts one that breaks rules (see `oncekey_engine::fault`), none if there are none.
    pub(crate) async fn breaking(rules: &str, upstream: &str, settings: &str) -> Self {
        Self::within(&[("ONCEKEYTEST_BREAK", rules)], upstream, settings).await
    }

    /// Starts one with these environment variables.
    pub(crate) async fn within(environment: &[(&str, &str)], upstream: &str, settings: &str) -> Self {
        let directory = oncekey_testkit::scratch_dir().expect("a directory");
        let store = format!("sqlite:{}", directory.path().join("oncekey.db").display());
        let mut gateway = Self::on(&store, directory.path(), upstream, settings, environment).await;
        gateway.directory = Some(directory);
        gateway
    }

    /// Starts one on a store that is a server.
    pub(crate) async fn on_server(store: &str, upstream: &str, settings: &str) -> Self {
        Self::on_server_within(&[], store, upstream, settings).await
    }

    /// The same with these environment variables.
    pub(crate) async fn on_server_within(
        environment: &[(&str, &str)],
        store: &str,
        upstream: &str,
        settings: &str,
    ) -> Self {
        let directory = oncekey_testkit::scratch_dir().expect("a directory");
        let mut gateway = Self::on(store, directory.path(), upstream, settings, environment).await;
        gateway.directory = Some(directory);
        gateway
    }

    /// Starts a further gateway on this one's store.
    pub(crate) async fn second(&self, upstream: &str, settings: &str) -> Self {
        self.second_within(&[], upstream, settings).await
    }

    /// The same with these environment variables.
    pub(crate) async fn second_within(&self, environment: &[(&str, &str)], upstream: &str, settings: &str) -> Self {
        Self::on_server_within(environment, &self.store, upstream, settings).await
    }

    async fn on(store: &str, directory: &Path, upstream: &str, settings: &str, environment: &[(&str, &str)]) -> Self {
        let file = directory.join("oncekey.toml");
        std::fs::write(&file, settings).expect("written");
        let [address, admin] = free_addresses().expect("two ports");
        let mut command = oncekey();
        command.arg("serve").arg("--config").arg(&file).args(["--store", store]);
        // A flag would beat what a file says later.
        if !upstream.is_empty() {
            command.args(["--upstream", upstream]);
        }
        command.args(["--listen", &address.to_string(), "--admin", &admin.to_string()]);
        command.envs(environment.iter().copied());
        let mut process = Process::start(&mut command).expect("oncekey starts");
        process.ready(admin, "/readyz").await.expect("oncekey becomes ready");
        Self { process, address, admin, file, directory: None, store: store.to_owned() }
    }

    /// Writes other settings into its file and lets it read them again (SIGHUP).
    pub(crate) fn rewrite(&mut self, settings: &str) {
        // Whole at once, as an editor or a mounted volume replaces a file.
        let whole = self.file.with_extension("new");
        std::fs::write(&whole, settings).expect("written");
        std::fs::rename(&whole, &self.file).expect("renamed");
        self.process.hang_up().expect("SIGHUP");
    }

    /// The same, and waits until it says that the reload is done; whether it was taken, and all that the log said about it.
    pub(crate) async fn reload(&mut self, settings: &str) -> (bool, Vec<String>) {
        let before = self.process.stderr().all().len();
        self.rewrite(settings);
        let said = || {
            let lines = self.process.stderr().all().split_off(before);
            let last = lines.iter().position(|line| line.contains("the configuration was "));
            last.map(|last| (!lines[last].contains("was not reloaded"), lines[..=last].to_vec()))
        };
        until("the end of a reload", || std::future::ready(said())).await
    }

    /// The file of its configuration.
    pub(crate) fn config_file(&self) -> &str {
        self.file.to_str().expect("a name of this test's")
    }

    /// The file of its store.
    pub(crate) fn store_file(&self) -> &Path {
        Path::new(self.store.strip_prefix("sqlite:").expect("it is a file"))
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address)
    }

    pub(crate) async fn raw(&self) -> RawClient {
        RawClient::connect(self.address).await.expect("connected")
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn send(&self, call: &Call) -> Answer {
        self.client().call(call).await.expect("an answer")
    }

    /// Sends raw bytes on a connection of their own, and reads the one answer.
    pub(crate) async fn exchange(&self, request: impl AsRef<[u8]>) -> RawAnswer {
        let mut client = self.raw().await;
        client.write(request).await.expect("sent");
        client.read_answer().await.expect("an answer")
    }

    /// Asks the admin listener.
    pub(crate) async fn ask(&self, path: &str) -> Answer {
        Client::new(self.admin).call(&Call::get(path)).await.expect("an answer")
    }

    /// Runs an operator's command on this gateway's store.
    pub(crate) fn operate(&self, arguments: &[&str]) -> Output {
        let mut command = oncekey();
        command.args(arguments).args(["--store", &self.store]);
        command.output().expect("oncekey runs")
    }

    /// Ends it as an init system does; it must end well.
    pub(crate) async fn end(mut self) {
        self.process.terminate().expect("SIGTERM");
        let status = self.process.exited(PATIENCE).await.expect("it ends");
        assert!(status.success(), "{status}; {:?}", self.process.stderr().all());
    }
}

/// Sends large bodies through a gateway, both ways and unguarded, and compares its memory with theirs.
///
/// A first, smaller transfer lets the allocator take the few blocks of megabytes each that it keeps: without it, its whim decides.
pub(crate) async fn bodies_take_little_memory(gateway: &Gateway) {
    const MEBIBYTE: usize = 1024 * 1024;
    transfer(gateway, 16 * MEBIBYTE).await;
    let before = gateway.process.memory().expect("its memory").peak;
    transfer(gateway, 96 * MEBIBYTE).await;
    // The kernel counts roughly: what it calls the peak can be a little less than it was.
    let grown = gateway.process.memory().expect("its memory").peak.saturating_sub(before);
    assert!(grown < 8 * MEBIBYTE as u64, "{grown} bytes more for bodies of 96 MiB, after bodies of 16 MiB");
}

/// Sends a body up and takes one down, of so many bytes each.
async fn transfer(gateway: &Gateway, bytes: usize) {
    let mut client = gateway.raw().await;
    client.write(format!("PUT /files/1 HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n")).await.expect("sent");
    let piece = vec![7; 1024 * 1024];
    for _ in 0..bytes / piece.len() {
        client.write(&piece).await.expect("sent");
    }
    assert_eq!(client.read_answer().await.expect("an answer").status, 200);

    client
        .write(format!("GET /files/1 HTTP/1.1\r\nHost: a\r\nX-Test-Body-Bytes: {bytes}\r\n\r\n"))
        .await
        .expect("sent");
    let head = client.read_until("\r\n\r\n").await.expect("a head");
    assert!(String::from_utf8_lossy(&head).to_lowercase().contains(&format!("content-length: {bytes}\r\n")));
    client.write("GET /last HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    client.read_until("HTTP/1.1 200 OK\r\n").await.expect("the next answer, behind the whole body");
}

/// `POST /orders` of account acc-1 with a key.
pub(crate) fn order(key: &str) -> Call {
    Call::post("/orders").scope("acc-1").key(key).json(r#"{"amount":1200}"#)
}

/// `POST /orders` of account acc-1 as bytes, with further field lines.
pub(crate) fn raw_order(key: &str, lines: &[&str]) -> Vec<u8> {
    let mut request = format!(
        "POST /orders HTTP/1.1\r\nHost: api.example\r\nX-Account-Id: acc-1\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 15\r\n"
    );
    for line in lines {
        request.push_str(line);
        request.push_str("\r\n");
    }
    request.push_str("\r\n{\"amount\":1200}");
    request.into_bytes()
}

/// Waits for something that has no event, asking again and again.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
}
