//! The pages on problems say what the code does: one for each code and no other, with its statuses, its title, its `retry`
//! and an example that is a problem.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use http::StatusCode;
use oncekey_core::RecordId;
use oncekey_core::problem::{Code, Problem, Profile, Style};
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/problems")
}

fn page(name: &str) -> String {
    let path = folder().join(name).with_extension("md");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn there_is_a_page_for_each_code_and_no_other() {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let pages: BTreeSet<String> = files.filter(|name| name != "README.md").collect();
    let expected: BTreeSet<String> = Code::ALL.iter().map(|code| format!("{}.md", code.as_str())).collect();
    assert_eq!(pages, expected);
}

#[test]
fn each_page_states_the_codes_statuses_and_its_retry() {
    for code in Code::ALL {
        let page = page(code.as_str());
        let rows =
            Profile::ALL.map(|profile| format!("| `{}` | {} |\n", profile.name(), code.status(profile).as_u16()));
        let table = format!("| profile | status |\n|---|---|\n{}", rows.concat());
        for part in [table, format!("\n`retry`: `{}`.", code.retry().as_str())] {
            assert!(page.contains(&part), "docs/problems/{}.md must hold:\n{part}", code.as_str());
        }
        let title = format!("# `{}`: {}", code.as_str(), code.title());
        let first = page.lines().next().unwrap();
        assert!(first.eq_ignore_ascii_case(&title), "{first}");
        for heading in ["What a client should do", "What an operator can look at", "Example"] {
            let (_, section) = page.split_once(&format!("\n## {heading}\n\n")).expect(heading);
            assert!(section.lines().next().is_some_and(|line| line.len() > 5), "{}: {heading}", code.as_str());
        }
    }
}

#[test]
fn each_example_is_the_problem_that_oncekey_makes() {
    for code in Code::ALL {
        let page = page(code.as_str());
        let (_, example) = page.split_once("```http\n").expect("an example");
        let (example, _) = example.split_once("```").expect("its end");
        let (head, body) = example.split_once("\n\n").expect("a head and a body");
        assert!(head.contains(&format!("\nOncekey-Problem: {}", code.as_str())), "{head}");
        let said: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{}: {error}", code.as_str()));

        // The 202 of W2 is no problem document; the page shows the problem of the other profiles.
        let style = match code {
            Code::InProgress => Style { in_progress: StatusCode::CONFLICT, ..Style::default() },
            _ => Style::default(),
        };
        assert!(head.starts_with(&format!("HTTP/1.1 {} ", style.status(code).as_u16())), "{head}");
        let mut problem = Problem::because(code, said["detail"].as_str().expect("a detail"));
        problem.operation_id =
            said.get("operation_id").map(|id| id.as_str().and_then(|id| id.parse::<RecordId>().ok()).expect("an id"));
        problem.original_status = (code == Code::ResponseNotStored).then_some(StatusCode::CREATED);
        let made: Value = serde_json::from_slice(&problem.body(&style)).unwrap();
        assert_eq!(said, made);
    }
}

#[test]
fn the_index_has_a_row_for_each_code() {
    let index = page("README");
    for code in Code::ALL {
        let (name, retry) = (code.as_str(), code.retry().as_str());
        let [default, ietf, stripe] = Profile::ALL.map(|profile| code.status(profile).as_u16());
        let row = format!("| [`{name}`]({name}.md) | {default} | {ietf} | {stripe} | `{retry}` | {} |", code.title());
        assert!(index.contains(&row), "docs/problems/README.md must hold:\n{row}");
    }
    assert_eq!(index.matches(".md) |").count(), Code::ALL.len());
}
