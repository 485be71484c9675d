//! The dashboard, used by a person in a real browser; what it did is asked of the gateway afterwards.

use std::path::PathBuf;
use std::process::Command;

use oncekey_testkit::{Answer, Call, CountingUpstream, PATIENCE, Process};

use super::stand::Gateway;

const TOKEN: &str = "a-token-for-the-dashboard";
const HOSTILE: &str = "<script>alert(1)</script>";
const HOSTILE_NOTE: &str = "<img src=x onerror=alert(1)>";

/// An order of a scope; 502 leaves it open whether it took effect.
async fn send(gateway: &Gateway, scope: &str, key: &str, script: [&str; 2]) -> Answer {
    let order = Call::post("/orders").scope(scope).key(key).json("{}");
    gateway.send(&order.header(script[0], script[1])).await
}

const OPEN: [&str; 2] = ["X-Test-Status", "502"];
const DONE: [&str; 2] = ["X-Test-Status", "201"];

fn screenshots() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[tokio::test]
async fn a_person_sees_what_waits_and_settles_it() {
    let upstream = CountingUpstream::start().await;
    let directory = oncekey_testkit::scratch_dir().expect("a directory");
    let token = directory.path().join("token");
    std::fs::write(&token, TOKEN).expect("written");
    let settings = format!("[admin]\ntoken = \"file:{}\"\n", token.display());
    let gateway = Gateway::start(&upstream.url(), &settings).await;
    for (scope, key) in [("acc-resolve", "r"), ("acc-many", "m-1"), ("acc-many", "m-2")] {
        assert_eq!(send(&gateway, scope, key, OPEN).await.status, 502);
    }
    assert_eq!(send(&gateway, "acc-purge", "p", DONE).await.status, 201);
    assert_eq!(send(&gateway, "acc-mismatch", "x", DONE).await.status, 201);
    let other = Call::post("/orders").scope("acc-mismatch").key("x").json("{\"other\":1}");
    assert_eq!(gateway.send(&other).await.status, 409);
    let noted = format!("X-Note: {HOSTILE_NOTE}");
    let hostile = send(&gateway, HOSTILE, "<b>k", ["X-Test-Header", &noted]).await;
    let id = hostile.header("oncekey-operation-id").expect("its id").to_owned();

    let mut browser = Command::new("node");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/dashboard.cjs");
    let modules = std::env::var_os("ONCEKEY_TEST_NODE_MODULES").expect("cargo xtask test sets it up");
    browser.arg(script).arg(format!("http://{}", gateway.admin)).arg(TOKEN).arg(screenshots());
    browser.env("NODE_PATH", modules).env("ONCEKEY_TEST_SCENE", format!("{{\"hostile\":\"{id}\"}}"));
    let mut browser = Process::start(&mut browser).expect("node starts");
    let status = browser.exited(PATIENCE * 4).await.expect("it ends");
    assert!(status.success(), "{:?}", browser.stderr().all());

    let resolved = send(&gateway, "acc-resolve", "r", OPEN).await;
    assert_eq!((resolved.status.as_u16(), &resolved.body[..]), (201, &b"{\"order_id\":\"by-hand\"}"[..]));
    let before = upstream.total();
    assert_eq!(send(&gateway, "acc-purge", "p", DONE).await.status, 201);
    for key in ["m-1", "m-2"] {
        assert_eq!(send(&gateway, "acc-many", key, DONE).await.status, 201, "said to have failed, it runs again");
    }
    assert_eq!(upstream.total(), before + 3);
    gateway.end().await;
}
