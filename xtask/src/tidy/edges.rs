//! Which crate may know which: `core ← store ← {store-*, engine, admin} ← tower ← cli`.

use serde_json::Value;

use super::Finding;

/// Every crate of the workspace, and those of its siblings that its own code may name.
const EDGES: [(&str, &[&str]); 19] = [
    ("oncekey-core", &[]),
    ("oncekey-store", &["oncekey-core"]),
    ("oncekey-store-test", &["oncekey-core", "oncekey-store"]),
    ("oncekey-store-sqlite", &["oncekey-core", "oncekey-store"]),
    ("oncekey-store-postgres", &["oncekey-core", "oncekey-store"]),
    ("oncekey-engine", &["oncekey-core", "oncekey-store"]),
    ("oncekey-admin", &["oncekey-core", "oncekey-store", "oncekey-engine"]),
    ("oncekey-tower", &["oncekey-core", "oncekey-store", "oncekey-engine"]),
    (
        "oncekey-cli",
        &[
            "oncekey-core",
            "oncekey-store",
            "oncekey-store-postgres",
            "oncekey-store-sqlite",
            "oncekey-engine",
            "oncekey-admin",
            "oncekey-tower",
        ],
    ),
    (
        "oncekey",
        &[
            "oncekey-core",
            "oncekey-store",
            "oncekey-store-postgres",
            "oncekey-store-sqlite",
            "oncekey-engine",
            "oncekey-tower",
        ],
    ),
    ("example-axum", &["oncekey"]),
    ("example-hyper", &["oncekey"]),
    ("example-jobs", &["oncekey"]),
    ("example-payment", &["oncekey"]),
    ("example-sqlx", &["oncekey"]),
    ("example-orders", &["oncekey"]),
    ("example-tonic", &["oncekey"]),
    ("oncekey-testkit", &[]),
    ("xtask", &["oncekey-testkit"]),
];

/// What the tests of any crate may name besides: the shared suite, the testkit, and a real store to run on.
const FOR_TESTS: [&str; 3] = ["oncekey-store-test", "oncekey-testkit", "oncekey-store-sqlite"];

/// Checks the output of `cargo metadata --no-deps`.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = list(&metadata["packages"]);
    let names: Vec<_> = packages.iter().map(|package| text(&package["name"])).collect();
    let mut findings = Vec::new();
    for package in packages {
        let name = text(&package["name"]);
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            findings.push(Finding::failure(format!("{name}: its edges aren't declared in xtask/src/tidy/edges.rs")));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let (to, for_tests) = (text(&dependency["name"]), dependency["kind"] == "dev");
            let is_ours = names.contains(&to);
            if is_ours && !allowed.contains(&to) && !(for_tests && FOR_TESTS.contains(&to)) {
                let what = if for_tests { "its tests may not name" } else { "may not depend on" };
                findings.push(Finding::failure(format!("{name}: {what} {to}")));
            }
        }
    }
    findings
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A workspace of all declared crates, in which one has one more dependency.
    fn with(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        let package = |name: &str| {
            let dependency = (name == from).then(|| json!({ "name": to, "kind": kind }));
            json!({ "name": name, "dependencies": dependency.into_iter().collect::<Vec<_>>() })
        };
        let packages: Vec<_> = EDGES.iter().map(|(name, _)| package(name)).collect();
        check(&json!({ "packages": packages })).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn edges_along_the_direction_are_fine() {
        assert!(with("oncekey-tower", "oncekey-engine", None).is_empty());
        assert!(with("oncekey-cli", "oncekey-store-sqlite", None).is_empty());
        assert!(with("oncekey-core", "serde", None).is_empty());
    }

    #[test]
    fn edges_against_the_direction_are_found() {
        assert_eq!(with("oncekey-core", "oncekey-store", None), ["oncekey-core: may not depend on oncekey-store"]);
        assert_eq!(with("oncekey-engine", "oncekey-tower", None).len(), 1);
    }

    #[test]
    fn only_the_program_and_the_facade_name_a_concrete_store() {
        assert!(with("oncekey", "oncekey-store-sqlite", None).is_empty());
        assert_eq!(with("oncekey-engine", "oncekey-store-sqlite", None).len(), 1);
        assert_eq!(with("oncekey-admin", "oncekey-store-sqlite", Some("build")).len(), 1);
    }

    #[test]
    fn tests_may_use_the_suite_and_a_store_and_no_more() {
        assert!(with("oncekey-engine", "oncekey-store-test", Some("dev")).is_empty());
        assert!(with("oncekey-engine", "oncekey-store-sqlite", Some("dev")).is_empty());
        assert_eq!(with("oncekey-engine", "oncekey-store-test", None).len(), 1);
        assert_eq!(with("oncekey-store", "oncekey-cli", Some("dev")).len(), 1);
    }

    #[test]
    fn a_crate_without_declared_edges_is_found() {
        let metadata = json!({ "packages": [{ "name": "oncekey-new", "dependencies": [] }] });
        assert_eq!(check(&metadata).len(), 1);
    }
}
