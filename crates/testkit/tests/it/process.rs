//! Processes: a shell stands in for the program under test.

use std::process::Command;
use std::time::Duration;

use oncekey_testkit::{CountingUpstream, Process, free_address, raise_open_files};

const SOON: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Process {
    Process::start(Command::new("sh").args(["-c", script])).unwrap()
}

/// The state letter of a process, if it exists.
fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim().chars().next()
}

#[tokio::test]
async fn lines_are_found_while_and_after_they_are_written() {
    let mut process = shell("echo one; echo two >&2; read never; echo three");
    assert_eq!(process.stdout().wait_for("on").await.unwrap(), "one");
    assert_eq!(process.stderr().wait_for("two").await.unwrap(), "two");
    process.exited(SOON).await.unwrap();
    process.stdout().wait_for("three").await.unwrap();
    assert_eq!(process.stdout().all(), ["one", "three"]);
    assert_eq!(process.stderr().all(), ["two"]);
}

#[tokio::test]
async fn a_line_that_never_comes_is_an_error_that_shows_the_others() {
    let process = shell("echo something else");
    let error = process.stdout().wait_for("ready").await.unwrap_err().to_string();
    assert!(error.contains("ready") && error.contains("something else"), "{error}");
}

#[tokio::test]
async fn arguments_environment_and_exit_code_pass() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo $GREETING; exit 64"]).env("GREETING", "hello");
    let mut process = Process::start(&mut command).unwrap();
    assert_eq!(process.exited(SOON).await.unwrap().code(), Some(64));
    process.stdout().wait_for("hello").await.unwrap();
}

#[tokio::test]
async fn a_program_that_goes_on_is_timed_out_and_can_be_waited_for_again() {
    let mut process = shell("exec sleep 600");
    let error = process.exited(Duration::from_millis(10)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    let status = process.kill9().await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert!(process.terminate().is_err(), "nothing is sent to a pid that may be another's");
}

#[tokio::test]
async fn sigterm_can_be_handled_by_the_program() {
    let mut process = shell("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    process.stdout().wait_for("ready").await.unwrap();
    process.terminate().unwrap();
    assert_eq!(process.exited(SOON).await.unwrap().code(), Some(3));
    process.stdout().wait_for("bye").await.unwrap();
}

#[tokio::test]
async fn a_stopped_program_stands_still_until_it_is_continued() {
    let mut process = shell("echo ready; while :; do :; done");
    process.stdout().wait_for("ready").await.unwrap();
    process.stop().unwrap();
    assert_eq!(state(process.id()), Some('T'));
    process.cont().unwrap();
    assert_ne!(state(process.id()), Some('T'));
    // A second round: the report of the first stop mustn't pass for that of the second.
    process.stop().unwrap();
    assert_eq!(state(process.id()), Some('T'));
}

#[tokio::test]
async fn a_dropped_process_is_killed_even_when_it_is_stopped() {
    let mut process = shell("trap '' TERM; exec sleep 600");
    let pid = process.id();
    process.stop().unwrap();
    drop(process);
    let gone = async {
        while !matches!(state(pid), None | Some('Z')) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, gone).await.unwrap();
}

#[tokio::test]
async fn readiness_is_an_answer_with_200() {
    let upstream = CountingUpstream::start().await;
    let mut process = shell("exec sleep 600");
    process.ready(upstream.address(), "/readyz").await.unwrap();
    assert_eq!(upstream.arrivals()[0].target, "/readyz");
}

#[tokio::test]
async fn a_program_that_ends_before_it_is_ready_is_an_error_with_its_stderr() {
    let mut process = shell("echo no store >&2; exit 69");
    process.stderr().wait_for("no store").await.unwrap();
    let error = process.ready(free_address().unwrap(), "/readyz").await.unwrap_err().to_string();
    assert!(error.contains("69") && error.contains("no store"), "{error}");
}

#[tokio::test]
async fn memory_and_cpu_time_are_the_processes() {
    let mut process = shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; read never < /dev/zero");
    process.stdout().wait_for("done").await.unwrap();
    assert!(process.cpu_time().unwrap() >= Duration::from_millis(20));
    let memory = process.memory().unwrap();
    assert!(memory.resident > 100_000 && memory.peak >= memory.resident, "{memory:?}");
    process.kill9().await.unwrap();
    assert!(process.memory().is_err());
}

#[tokio::test]
async fn raised_open_files_are_inherited() {
    let most = raise_open_files().unwrap().map_or("unlimited".to_owned(), |most| most.to_string());
    let process = shell("ulimit -n; sleep 600");
    process.stdout().wait_for("").await.unwrap();
    assert_eq!(process.stdout().all(), [most]);
}
