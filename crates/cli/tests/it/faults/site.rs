//! A store, an upstream, and the gateways that are started, killed and paused between them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use oncekey_testkit::{
    Answer, Call, Client, CountingUpstream, Options, PATIENCE, PostgresServer, Process, TempDir, scratch_dir,
};
use serde_json::Value;

use super::history::SCOPE;

/// Between two looks at what has no event.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// One store and one upstream.
pub(super) struct Site {
    directory: TempDir,
    /// The store's URL, where it isn't a file of the directory's.
    server: Option<String>,
    pub(super) upstream: CountingUpstream,
    /// Which HTTP the upstream speaks, as the setting says it.
    http: &'static str,
}

impl Site {
    pub(super) async fn new() -> Self {
        Self::of(CountingUpstream::start().await, "1.1")
    }

    pub(super) async fn speaking_http2() -> Self {
        Self::of(CountingUpstream::start_http2().await, "2")
    }

    fn of(upstream: CountingUpstream, http: &'static str) -> Self {
        Self { directory: scratch_dir().expect("a directory"), server: None, upstream, http }
    }

    /// A site whose gateways share a database on a server, which they reach by an address of their own: a proxy's, or its own.
    pub(super) async fn on_server(address: SocketAddr) -> Self {
        let database = crate::server::database().await;
        Self::on_store(PostgresServer::url_by(address, &database)).await
    }

    /// A site whose gateways share the store of this URL.
    pub(super) async fn on_store(url: String) -> Self {
        Self { server: Some(url), ..Self::new().await }
    }

    /// A site whose upstream executes a key as often as it is asked to, with one effect.
    pub(super) async fn idempotent() -> Self {
        let options = Options { idempotent: true, ..Options::default() };
        let upstream = CountingUpstream::start_with(options).await.expect("a loopback port can be had");
        Self::of(upstream, "1.1")
    }

    /// A gateway on the store and the upstream, with a lease of a second, waiters that are patient enough to see a claim
    /// lapse, and no sweeping of its own accord.
    pub(super) fn gateway(&self) -> Plan {
        let plan = Plan { environment: BTreeMap::new(), shell: None };
        plan.set("store", &self.store())
            .set("upstream", &self.upstream.url())
            .set("upstream_http", self.http)
            .set("lease", "1s")
            .set("wait", "20s")
            .set("sweep_every", "1d")
    }

    pub(super) fn file(&self) -> PathBuf {
        self.directory.path().join("records.db")
    }

    fn store(&self) -> String {
        self.server.clone().unwrap_or_else(|| format!("sqlite:{}", self.file().display()))
    }

    /// What the records say, asked of no gateway: key by key.
    pub(super) fn records(&self) -> Records {
        let listed = Command::new(env!("CARGO_BIN_EXE_oncekey"))
            .args(["records", "list", "--json", "--store", &self.store()])
            .env_clear()
            .output()
            .expect("oncekey runs");
        let text = String::from_utf8_lossy(&listed.stdout);
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        Records::parse(&serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }
}

/// A gateway that isn't started yet.
#[derive(Clone)]
pub(super) struct Plan {
    environment: BTreeMap<String, String>,
    /// Runs first, in the process that becomes the gateway.
    shell: Option<&'static str>,
}

impl Plan {
    /// With a setting, as the environment spells it.
    pub(super) fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(format!("ONCEKEY_{}", name.to_uppercase()), value.to_owned());
        self
    }

    /// With a fault, `PLACE[@N]=ACTION`.
    pub(super) fn fault(mut self, fault: &str) -> Self {
        self.environment.insert("ONCEKEYTEST_FAULT".to_owned(), fault.to_owned());
        self
    }

    /// With broken rules; empty for none.
    pub(super) fn breaking(mut self, rules: &str) -> Self {
        self.environment.insert("ONCEKEYTEST_BREAK".to_owned(), rules.to_owned());
        self
    }

    /// With shell commands that run first in its process.
    pub(super) fn after(mut self, commands: &'static str) -> Self {
        self.shell = Some(commands);
        self
    }

    /// Starts it and waits until it is ready.
    pub(super) async fn start(&self) -> Gateway {
        self.start_at(fresh_address(), fresh_address()).await
    }

    /// Starts one in the place of another that has ended, where its clients look for it.
    pub(super) async fn start_again(&self, ended: &Gateway) -> Gateway {
        self.start_at(ended.front, ended.admin).await
    }

    /// Starts it where it is expected to end at once; its exit code and what it said.
    pub(super) async fn refused(&self) -> (Option<i32>, String) {
        let process = Process::start(&mut self.command(fresh_address(), fresh_address()));
        let mut process = process.expect("oncekey starts");
        let status = process.exited(PATIENCE).await.expect("oncekey ends");
        (status.code(), process.stderr().whole().await.join("\n"))
    }

    async fn start_at(&self, front: SocketAddr, admin: SocketAddr) -> Gateway {
        let mut process = Process::start(&mut self.command(front, admin)).expect("oncekey starts");
        process.ready(admin, "/readyz").await.expect("the gateway starts");
        Gateway { process, front, admin }
    }

    fn command(&self, front: SocketAddr, admin: SocketAddr) -> Command {
        let program = env!("CARGO_BIN_EXE_oncekey");
        let mut command = match self.shell {
            None => Command::new(program),
            Some(commands) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("{commands}; exec \"$0\" \"$@\""), program]);
                shell
            }
        };
        command.args(["serve", "--listen", &front.to_string(), "--admin", &admin.to_string()]);
        command.env_clear().envs(&self.environment);
        command
    }
}

/// An address that nobody else has or gets: all of 127.0.0.0/8 is loopback, so this process has an IP address of its own,
/// by its number, and every gateway a port of its own on that, below those that the system hands out. Hundreds of gateways
/// come and go in here, and a port that was free a moment ago would be another's often enough.
fn fresh_address() -> SocketAddr {
    static PORTS: AtomicU16 = AtomicU16::new(10_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = PORTS.fetch_add(1, Ordering::Relaxed);
    assert!(port < 32_000, "more gateways than ports");
    (Ipv4Addr::new(127, 64 + high, middle, low), port).into()
}

/// A running gateway.
pub(super) struct Gateway {
    pub(super) process: Process,
    pub(super) front: SocketAddr,
    admin: SocketAddr,
}

impl Gateway {
    /// Waits until a fault has killed it.
    pub(super) async fn killed(&mut self) {
        let status = self.process.exited(PATIENCE).await.expect("the fault kills the gateway");
        assert_eq!(status.signal(), Some(9), "{:?}", self.process.stderr().all());
    }

    /// Waits until a fault has paused it. A process that pauses itself tells nobody but the kernel.
    pub(super) async fn stopped(&self) {
        let stat = format!("/proc/{}/stat", self.process.id());
        let stopped = async {
            loop {
                let text = std::fs::read_to_string(&stat).expect("the gateway lives");
                // The name before it ends in the last parenthesis.
                if text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T')) {
                    return;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(PATIENCE, stopped).await.expect("the fault pauses the gateway");
    }

    /// Waits until an admin path is answered with this status.
    pub(super) async fn says(&self, path: &str, status: u16) {
        let said = async {
            while self.admin(&Call::get(path)).await.status != status {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(PATIENCE, said).await.unwrap_or_else(|_| panic!("{path} never says {status}"));
    }

    pub(super) async fn admin(&self, call: &Call) -> Answer {
        Client::new(self.admin).call(call).await.expect("the admin listener answers")
    }

    /// What the records say.
    pub(super) async fn records(&self) -> Records {
        let answer = self.admin(&Call::get("/api/records?limit=1000")).await;
        assert_eq!(answer.status, 200);
        Records::parse(&answer.json())
    }

    /// Has what lapsed written down.
    pub(super) async fn sweep(&self) {
        let answer = self.admin(&Call::post("/api/sweep").json("")).await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
    }

    /// Says, as an operator, that nothing took effect.
    pub(super) async fn resolve_failed(&self, key: &str) {
        let id = self.records().await.0[key].id.clone();
        let call = Call::post(format!("/api/records/{id}/resolve")).json(r#"{"as":"failed"}"#);
        assert_eq!(self.admin(&call).await.status, 200);
    }
}

/// Records as operators see them, by key.
#[derive(Debug)]
pub(super) struct Records(pub(super) BTreeMap<String, RecordRow>);

#[derive(Debug, Default)]
pub(super) struct RecordRow {
    pub(super) id: String,
    pub(super) attempts: u64,
    pub(super) state: String,
    pub(super) response_status: Option<u64>,
}

impl Records {
    fn parse(listing: &Value) -> Self {
        assert_eq!(listing["next"], Value::Null, "the listing is whole");
        let rows = listing["records"].as_array().expect("a listing has records").iter().map(|row| {
            assert_eq!(row["scope"], SCOPE);
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let parsed = RecordRow {
                id: text("id"),
                attempts: row["attempts"].as_u64().unwrap_or_default(),
                state: text("state"),
                response_status: row["response_status"].as_u64(),
            };
            (text("key"), parsed)
        });
        Self(rows.collect())
    }

    /// The state of a key's record; `absent` where there is none.
    pub(super) fn state(&self, key: &str) -> &str {
        self.0.get(key).map_or("absent", |row| &row.state)
    }
}
