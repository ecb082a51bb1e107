//! The example of a host, which its reader may kill at any time.

use std::{
    env,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use super::assert_verified;

#[test]
fn the_example_of_a_host_carries_on_whenever_it_is_killed() {
    let built = Command::new(env!("CARGO")).args(["build", "-q", "--example", "embed"]).status();
    assert!(built.unwrap().success());
    let test = env::current_exe().unwrap();
    let example = test.parent().unwrap().with_file_name("examples").join("embed");
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = Command::new(&example);
        command.arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut told = String::new();
    let mut kept = |output: std::process::Output| {
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        told.push_str(&String::from_utf8_lossy(&output.stdout));
    };
    for millis in [40, 90, 15, 300, 480, 5, 730, 60, 910, 210] {
        let mut host = start();
        thread::sleep(Duration::from_millis(millis));
        host.kill().unwrap();
        kept(host.wait_with_output().unwrap());
    }
    let last = start().wait_with_output().unwrap();
    assert!(last.status.success());
    kept(last);
    assert!(told.ends_with("researcher to planner: answer 20\nall has been said\n"), "{told}");
    for number in 1..=20 {
        for line in [
            format!("planner to researcher: question {number}\n"),
            format!("researcher to planner: answer {number}\n"),
        ] {
            // Killed between the log and the terminal, it says nothing of it.
            assert!(told.matches(&line).count() <= 1, "{line} {told}");
        }
    }
    let log = recount::log::sqlite::SqliteRows::open(folder.path().join("agents.db")).unwrap();
    let stats = recount::stats(log, &recount::StatsOptions::default()).unwrap();
    assert_eq!(stats.messages_by_status, [("processed", 40)].into());
    assert_verified(&folder.path().join("agents.db"), stats.events);
}
