//! The files of the repository that people write.

use std::fs;
use std::path::Path;

use crate::Result;

/// Kinds of files that are read; others are data.
const TEXTS: [&str; 12] = ["rs", "toml", "md", "py", "js", "sql", "sh", "yml", "yaml", "json", "txt", "service"];

/// All texts below a folder, by their path from it, in order. Build output and hidden folders are left out, but for
/// `.ci`, which is the repository's own.
pub(super) fn texts(root: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder)? {
            let path = item?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                let skipped = name == "target" || name == "node_modules" || (name.starts_with('.') && name != ".ci");
                folders.extend((!skipped).then(|| path.clone()));
            } else if is_text(&path) {
                let below = path.strip_prefix(root)?.to_string_lossy().into_owned();
                found.push((below, fs::read_to_string(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_text(path: &Path) -> bool {
    let in_ci = path.parent().and_then(Path::file_name).is_some_and(|folder| folder == ".ci");
    in_ci || path.extension().is_some_and(|extension| TEXTS.iter().any(|text| extension == *text))
}

/// Whether a file holds Rust.
pub(super) fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[test]
    fn sources_documents_and_the_ci_script_are_read_and_build_output_is_not() {
        let texts = texts(root()).unwrap();
        let has = |path: &str| texts.iter().any(|(other, _)| other == path);
        assert!(has("xtask/src/tidy/files.rs") && has("Cargo.toml") && has(".ci/run") && has("docs/protocol.md"));
        assert!(!texts.iter().any(|(path, _)| path.starts_with("target/") || path.starts_with(".git/")));
    }
}
