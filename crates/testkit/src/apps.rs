//! Real applications as upstreams: FastAPI under uvicorn and, for HTTP/2, under Hypercorn; Express on Node and, for HTTP/2,
//! Node's own server. All count executions per key and close a connection that was idle for five seconds, as they do where
//! they are deployed.
//!
//! What they need is set up by `cargo xtask test`, which names it in the environment; this module installs nothing.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::process::Command;

use crate::{Call, Client, PATIENCE, Process};

/// The Python interpreter that has FastAPI and uvicorn.
const PYTHON: &str = "ONCEKEY_TEST_PYTHON";
/// The `node_modules` that has Express.
const NODE_MODULES: &str = "ONCEKEY_TEST_NODE_MODULES";
/// Where the applications are.
const APPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/apps");

/// Starts the FastAPI application.
#[derive(Debug)]
pub struct PythonUpstream;

/// Starts the Express application.
#[derive(Debug)]
pub struct NodeUpstream;

/// Starts the FastAPI application where HTTP/2 is spoken, and HTTP/1.1 to who asks for that.
#[derive(Debug)]
pub struct PythonHttp2Upstream;

/// Starts the application on Node where nothing but HTTP/2 is spoken.
#[derive(Debug)]
pub struct NodeHttp2Upstream;

/// A running application with `POST /orders` and `GET /count?key=`. Dropping it kills it.
#[derive(Debug)]
pub struct AppUpstream {
    process: Process,
    address: SocketAddr,
}

impl PythonUpstream {
    /// Starts `fastapi_app.py` under uvicorn on a free port and waits until it listens.
    pub async fn start() -> io::Result<AppUpstream> {
        let mut command = Command::new(required(PYTHON)?);
        command.args(["-m", "uvicorn", "fastapi_app:app", "--app-dir", APPS, "--host", "127.0.0.1", "--port", "0"]);
        command.args(["--timeout-keep-alive", "5"]).env("PYTHONDONTWRITEBYTECODE", "1");
        let process = Process::start(&mut command)?;
        let line = process.stderr().wait_for("running on http://127.0.0.1:").await?;
        AppUpstream::new(process, &line)
    }
}

impl NodeUpstream {
    /// Starts `node_app.js` on a free port and waits until it listens.
    pub async fn start() -> io::Result<AppUpstream> {
        let mut command = Command::new("node");
        command.arg(format!("{APPS}/node_app.js")).env("NODE_PATH", required(NODE_MODULES)?);
        let process = Process::start(&mut command)?;
        let line = process.stdout().wait_for("running on http://127.0.0.1:").await?;
        AppUpstream::new(process, &line)
    }
}

impl PythonHttp2Upstream {
    /// Starts `fastapi_app.py` under Hypercorn on a free port and waits until it listens.
    pub async fn start() -> io::Result<AppUpstream> {
        let mut command = Command::new(required(PYTHON)?);
        // No workers: their process would outlive the one that is killed.
        command.args([
            "-m",
            "hypercorn",
            "fastapi_app:app",
            "--bind",
            "127.0.0.1:0",
            "--keep-alive",
            "5",
            "--workers",
            "0",
        ]);
        command.current_dir(APPS).env("PYTHONDONTWRITEBYTECODE", "1");
        let process = Process::start(&mut command)?;
        let line = process.stderr().wait_for("Running on http://127.0.0.1:").await?;
        AppUpstream::new(process, &line)
    }
}

impl NodeHttp2Upstream {
    /// Starts `node_http2_app.js` on a free port and waits until it listens. Its [`AppUpstream::count`] can't be asked, since
    /// that is a request in HTTP/1.1.
    pub async fn start() -> io::Result<AppUpstream> {
        let process = Process::start(Command::new("node").arg(format!("{APPS}/node_http2_app.js")))?;
        let line = process.stdout().wait_for("running on http://127.0.0.1:").await?;
        AppUpstream::new(process, &line)
    }
}

impl AppUpstream {
    fn new(process: Process, line: &str) -> io::Result<Self> {
        let after = line.split_once("http://").map_or("", |(_, rest)| rest);
        let address = after.split_whitespace().next().and_then(|text| text.parse().ok());
        let address = address.ok_or_else(|| io::Error::other(format!("no address in {line:?}")))?;
        Ok(Self { process, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS`, as `--upstream` takes it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The process, for its output and signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// How often `POST /orders` was executed with this key, which must need no escaping in a query.
    pub async fn count(&self, key: &str) -> io::Result<u64> {
        let answer = Client::new(self.address).call(&Call::get(format!("/count?key={key}"))).await?;
        answer.json()["count"].as_u64().ok_or_else(|| io::Error::other("the application gave no count"))
    }
}

/// Runs one of the Python programs among the applications to its end, and gives what it prints. Dropping the future kills it.
/// Fails when it says that it failed, or after [`PATIENCE`].
pub async fn run_python(program: &str, arguments: &[&str]) -> io::Result<String> {
    let mut command = tokio::process::Command::new(required(PYTHON)?);
    command.arg(format!("{APPS}/{program}")).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.map_err(|_| io::ErrorKind::TimedOut)??;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

pub(crate) fn required(name: &str) -> io::Result<OsString> {
    std::env::var_os(name).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{name} is not set: run `cargo xtask test`, which sets it up"))
    })
}
