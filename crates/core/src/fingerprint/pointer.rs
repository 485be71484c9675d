//! JSON pointers (RFC 6901): which values of a body don't count (F7).

use std::fmt;
use std::str::FromStr;

/// A pointer to a value within a JSON document; never the whole of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(Box<[String]>);

/// Text that is no pointer, or not one that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// Nothing would be left to tell two requests apart by.
    #[error("the empty pointer means the whole body")]
    Whole,
    /// The first character is another one.
    #[error("a pointer begins with `/`")]
    NoSlash,
    /// A `~` that encodes nothing.
    #[error("`~` is written `~0`, and `/` within a name `~1`")]
    Escape,
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        if text.is_empty() {
            return Err(PointerError::Whole);
        }
        let tokens = text.strip_prefix('/').ok_or(PointerError::NoSlash)?;
        tokens.split('/').map(unescape).collect::<Result<_, _>>().map(Self)
    }
}

fn unescape(token: &str) -> Result<String, PointerError> {
    let mut pieces = token.split('~');
    let mut name = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (meant, rest) = match piece.as_bytes().first() {
            Some(b'0') => ('~', &piece[1..]),
            Some(b'1') => ('/', &piece[1..]),
            _ => return Err(PointerError::Escape),
        };
        name.push(meant);
        name.push_str(rest);
    }
    Ok(name)
}

/// A name as a pointer spells it.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| write!(f, "/{}", escape(name)))
    }
}

/// The pointers that lead on from one place of a document: a part of a sorted list, whose members agree up to `level`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below<'a> {
    pointers: &'a [Pointer],
    level: usize,
}

impl<'a> Below<'a> {
    /// At the root of a document. The pointers must be sorted.
    pub(super) const fn root(pointers: &'a [Pointer]) -> Self {
        Self { pointers, level: 0 }
    }

    /// Whether no pointer comes by here.
    pub(super) const fn is_empty(self) -> bool {
        self.pointers.is_empty()
    }

    /// Whether a pointer ends here: then this value doesn't count. Sorted, the shortest comes first.
    pub(super) fn ends_here(self) -> bool {
        self.pointers.first().is_some_and(|pointer| pointer.0.len() == self.level)
    }

    /// At a member or an item of the value here. No pointer ends here, or nobody would look inside.
    pub(super) fn child(self, name: &str) -> Self {
        let at = |pointer: &Pointer| pointer.0[self.level].as_str().cmp(name);
        let start = self.pointers.partition_point(|pointer| at(pointer).is_lt());
        let end = self.pointers.partition_point(|pointer| at(pointer).is_le());
        Self { pointers: &self.pointers[start..end], level: self.level + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_read_by_the_rfc_and_written_as_they_were() {
        for (text, names) in [
            ("/", &[""][..]),
            ("/a", &["a"]),
            ("/a/0/b", &["a", "0", "b"]),
            ("/a~1b/m~0n/~01", &["a/b", "m~n", "~1"]),
            ("//x", &["", "x"]),
            ("/ /é/\"/%", &[" ", "é", "\"", "%"]),
        ] {
            let pointer: Pointer = text.parse().unwrap();
            assert_eq!(*pointer.0, *names, "{text}");
            assert_eq!(pointer.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for (text, error) in [
            ("", PointerError::Whole),
            ("a", PointerError::NoSlash),
            ("#/a", PointerError::NoSlash),
            ("/~", PointerError::Escape),
            ("/a~2", PointerError::Escape),
            ("/~0~", PointerError::Escape),
            ("/~é", PointerError::Escape),
        ] {
            assert_eq!(text.parse::<Pointer>(), Err(error), "{text}");
        }
    }
}
