//! One cookie out of a request's `Cookie` fields (RFC 6265), read as leniently as servers do, so that the upstream can't
//! see another value under the name than oncekey does.

use http::HeaderMap;
use http::header::COOKIE;

use super::InvalidScope;

/// The value of the cookie `name`, as sent; `None` if there is none or it is empty. HTTP/2 may split the field into several
/// lines. The same name twice is refused, whatever the values: servers differ in which of them they take.
pub(super) fn value<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a [u8]>, InvalidScope> {
    let pairs = headers.get_all(COOKIE).into_iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let mut values = pairs.filter_map(pair).filter(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(InvalidScope::because(format!(
            "Send the cookie `{name}` once; this request has several of that name, perhaps for several paths."
        ))),
        (value, None) => Ok(value.filter(|value| !value.is_empty())),
    }
}

/// Name and value without the white space around them; a pair without `=` has no name.
fn pair(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    Some((pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii()))
}
