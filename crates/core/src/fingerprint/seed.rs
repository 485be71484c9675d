//! The fingerprints of records that were made before oncekey, by the code that it grew from (decision 0036).
//!
//! That code kept SHA-256 of the body, read by Python and spelled with sorted names, by itself or beside method and path. Which
//! of the usual formulas it was can't be told from a row, so a retry is compared under each of them: SHA-256 meets the digest
//! that was kept under the right one alone, and one that meets it under none is `key-reused` and never executed.

use std::io::Write;

use sha2::{Digest, Sha256};

use super::canonical::Operation;
use super::json::python::{self, Style};

/// How Python may have been told to spell the body; the first is the likeliest.
const STYLES: [Style; 4] = [
    Style { compact: true, ascii: true },
    Style { compact: false, ascii: true },
    Style { compact: true, ascii: false },
    Style { compact: false, ascii: false },
];

/// What may stand between method, path and body, where they are parts of it.
const BETWEEN: [&str; 4] = [":", "|", "", "\n"];

/// The digest of an operation: `sought`, if a formula of the seed's yields it, and else that of the likeliest one.
pub(super) fn digest(operation: &Operation<'_>, sought: &[u8; 32]) -> [u8; 32] {
    let body = operation.body.plain().unwrap_or(operation.body.sent());
    let is_json = python::spelled(body, STYLES[0]).is_some();
    let mut likeliest = None;
    for style in STYLES {
        let spelled = python::spelled(body, style);
        let spelled = spelled.as_deref().map_or(body, str::as_bytes);
        for digest in of_formulas(operation, spelled, style, is_json) {
            if digest == *sought {
                return digest;
            }
            likeliest.get_or_insert(digest);
        }
    }
    likeliest.unwrap_or_default()
}

/// The digests that a body in one spelling may have.
fn of_formulas<'a>(
    operation: &'a Operation<'a>,
    body: &'a [u8],
    style: Style,
    is_json: bool,
) -> impl Iterator<Item = [u8; 32]> + 'a {
    let (method, path) = (operation.method.as_str(), operation.path);
    let joined = BETWEEN.into_iter().map(move |between| {
        of_parts(&[method.as_bytes(), between.as_bytes(), path.as_bytes(), between.as_bytes(), body])
    });
    // As one document: {"body":…,"method":…,"path":…}.
    let document = is_json.then(|| {
        let (comma, colon) = (style.comma(), style.colon());
        let mut end = format!("{comma}\"method\"{colon}").into_bytes();
        python::write_string(method, style.ascii, &mut end);
        let _ = write!(end, "{comma}\"path\"{colon}");
        python::write_string(path, style.ascii, &mut end);
        end.push(b'}');
        of_parts(&[b"{\"body\"", colon.as_bytes(), body, &end])
    });
    std::iter::once(of_parts(&[body])).chain(joined).chain(document)
}

fn of_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}
