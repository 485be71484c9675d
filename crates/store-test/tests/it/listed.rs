//! No case is written and then forgotten in the list.

const FILES: [(&str, &str); 12] = [
    ("claiming", include_str!("../../src/cases/claiming.rs")),
    ("replacing", include_str!("../../src/cases/replacing.rs")),
    ("outcomes", include_str!("../../src/cases/outcomes.rs")),
    ("responses", include_str!("../../src/cases/responses.rs")),
    ("living", include_str!("../../src/cases/living.rs")),
    ("sweeping", include_str!("../../src/cases/sweeping.rs")),
    ("listing", include_str!("../../src/cases/listing.rs")),
    ("operating", include_str!("../../src/cases/operating.rs")),
    ("beginning", include_str!("../../src/cases/beginning.rs")),
    ("closing", include_str!("../../src/cases/closing.rs")),
    ("auditing", include_str!("../../src/cases/auditing.rs")),
    ("counting", include_str!("../../src/cases/counting.rs")),
];

#[test]
fn every_case_is_in_the_suite() {
    let suite = include_str!("../../src/suite.rs");
    let modules = include_str!("../../src/cases.rs").lines().filter(|line| line.starts_with("pub mod ")).count();
    assert_eq!(modules, FILES.len(), "every file of cases is looked at here");
    for (group, source) in FILES {
        let list = suite.split(&format!("{group}:\n")).nth(1).and_then(|rest| rest.split(';').next());
        let listed: Vec<&str> = list.unwrap_or_default().split_whitespace().collect();
        let written: Vec<&str> = source
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn "))
            .filter_map(|line| line.split('(').next())
            .collect();
        assert_eq!(listed, written, "{group}");
    }
}
