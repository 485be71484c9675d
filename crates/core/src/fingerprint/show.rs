//! The canonical form of a request as text. What clients sent may hold anything: bytes that are no text are spelled `\xNN`,
//! and but for the lines of a body so are control characters, lest a value pass for lines of its own. Who prints a body on a
//! terminal has to make its control characters visible.

use std::fmt;

use super::Fingerprint;
use super::canonical::{Canonical, Content};
use super::media_type::MediaType;
use super::multipart::Part;
use super::pairs::Pairs;

/// Bytes that are no text are shown up to this many; of more, how many they are.
const MOST_BYTES: usize = 256;

/// Bytes as text on one line.
pub(super) fn spelled(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() { text.extend(character.escape_default()) } else { text.push(character) }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// The content of a body or a part.
pub(super) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) if bytes.len() <= MOST_BYTES => spelled(bytes),
        Err(_) => format!("{}… ({} bytes)", spelled(&bytes[..MOST_BYTES]), bytes.len()),
    }
}

impl Content<'_> {
    /// As what the body was read.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Raw(_) => "raw bytes",
            Self::Json(_) => "JSON",
            Self::Form(_) => "form",
            Self::Multipart(_) => "multipart form",
        }
    }
}

impl Canonical<'_> {
    /// As what the body counts: `JSON`, `form`, `multipart form` or `raw bytes`.
    pub const fn kind(&self) -> &'static str {
        self.content.kind()
    }
}

impl fmt::Display for Canonical<'_> {
    /// A line for each thing that counts, and the body's lines at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.method, self.path)?;
        show_pairs("query ", &self.query, f)?;
        match &self.media_type {
            MediaType::Absent => writeln!(f, "no media type")?,
            MediaType::One(essence) => writeln!(f, "media type {}", spelled(essence))?,
            MediaType::Repeated(lines) => {
                for line in lines {
                    writeln!(f, "one media type of several: {}", spelled(line))?;
                }
            }
        }
        for (name, lines) in &self.headers {
            if lines.is_empty() {
                writeln!(f, "no header {name}")?;
            }
            for line in lines {
                writeln!(f, "header {name} = {}", spelled(line))?;
            }
        }
        if let Content::Raw(raw) = &self.content {
            let by = raw.codings.iter().map(|line| ("content-encoding", line));
            for (name, line) in by.chain(raw.content_type.iter().map(|line| ("content-type", line))) {
                writeln!(f, "header {name} = {}", spelled(line))?;
            }
        }
        writeln!(f, "body, read as {}:", self.kind())?;
        match &self.content {
            Content::Raw(raw) => writeln!(f, "{}", shown(raw.bytes)),
            Content::Json(document) => writeln!(f, "{}", spelled(document.form().as_bytes())),
            Content::Form(pairs) => show_pairs("", pairs, f),
            Content::Multipart(parts) => parts.iter().try_for_each(|part| show_part(part, f)),
        }
    }
}

fn show_pairs(before: &str, pairs: &Pairs, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (name, value) in pairs.iter() {
        writeln!(f, "{before}{} = {}", spelled(name), spelled(value))?;
    }
    Ok(())
}

fn show_part(part: &Part<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "part {}", spelled(part.name))?;
    for (name, value) in &part.parameters {
        write!(f, ", {} {}", spelled(name), spelled(value))?;
    }
    if let Some(media_type) = &part.media_type {
        write!(f, ", media type {}", spelled(media_type))?;
    }
    writeln!(f, ":\n{}", shown(part.content))
}

impl fmt::Display for Fingerprint {
    /// The digest in hex.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digest().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
