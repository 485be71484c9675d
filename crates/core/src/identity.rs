//! What names a record: namespace, scope and key (S1, S3, S5), and the operation id derived from them.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::{Key, Scope};

/// The part of a record's identity that keeps services and environments on one store apart (S5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(Box<str>);

/// A namespace is 1 to 64 characters out of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a namespace has 1 to 64 characters out of A-Z a-z 0-9 . _ -")]
pub struct InvalidNamespace;

impl Namespace {
    /// The namespace as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("default".into())
    }
}

impl FromStr for Namespace {
    type Err = InvalidNamespace;

    fn from_str(text: &str) -> Result<Self, InvalidNamespace> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidNamespace)
        }
    }
}

/// The full name of a record. Stores keep the parts in separate fields (S3); [`Identity::id`] is the short form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// See [`Namespace`].
    pub namespace: Namespace,
    /// Whose key it is, and where that was read from.
    pub scope: Scope,
    /// The client's key, decoded.
    pub key: Key,
}

impl Identity {
    /// The operation id: the first 128 bits of SHA-256 over the length-prefixed parts, laid out as a UUID of version 8.
    /// The same on every node and for every attempt, so that a duplicate can name the operation before it has seen the
    /// record (P3, E11, L4).
    pub fn id(&self) -> RecordId {
        RecordId(self.derived(b"oncekey/operation/v1", 8))
    }

    /// The key under which the upstream's own provider knows the operation (E11): derived as [`Identity::id`] is, so that it
    /// is the same for every attempt and differs between scopes, but in another domain, so that neither tells the other. A
    /// UUID that says version 4, since that is what providers check for.
    pub fn forwarded_key(&self) -> String {
        RecordId(self.derived(b"oncekey/forwarded-key/v1", 4)).to_string()
    }

    /// The first 128 bits of SHA-256 over a domain and the length-prefixed parts, laid out as a UUID.
    fn derived(&self, domain: &[u8], version: u8) -> [u8; 16] {
        let mut hasher = Sha256::new();
        hasher.update(domain);
        for part in [self.namespace.as_str(), self.scope.source(), self.scope.value(), self.key.as_str()] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        uuid(&hasher, version)
    }
}

/// The first 128 bits of what was hashed, laid out as a UUID.
fn uuid(hasher: &Sha256, version: u8) -> [u8; 16] {
    let digest = hasher.clone().finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = (bytes[6] & 0x0f) | (version << 4);
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    bytes
}

impl fmt::Debug for Identity {
    /// Names the record without its scope or key, so that no log line can hold them (P2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.id())
    }
}

/// The operation id of a record, written as a UUID. It is what logs, problems and the admin API call a record by (P2, P3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId([u8; 16]);

/// Text that is not a hyphenated UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operation id is a UUID like 0f0e0d0c-0b0a-8908-8706-050403020100")]
pub struct InvalidRecordId;

impl RecordId {
    /// From the bytes that a store kept.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, as stores keep them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The key under which another service is to know one step of the operation: a call of a provider's. The same for every
    /// attempt, also after the record has expired, and another one for each step. A UUID that says version 4, since that is
    /// what providers check for. Not secret from whoever knows the operation id.
    pub fn step_key(&self, step: &str) -> String {
        let hasher = Sha256::new().chain_update(b"oncekey/step-key/v1").chain_update(self.0).chain_update(step);
        Self(uuid(&hasher, 4)).to_string()
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({self})")
    }
}

impl FromStr for RecordId {
    type Err = InvalidRecordId;

    fn from_str(text: &str) -> Result<Self, InvalidRecordId> {
        let text = text.as_bytes();
        let hyphens_in_place = text.len() == 36
            && text.iter().enumerate().all(|(index, byte)| (*byte == b'-') == matches!(index, 8 | 13 | 18 | 23));
        if !hyphens_in_place {
            return Err(InvalidRecordId);
        }
        let mut digits = text.iter().filter(|byte| **byte != b'-').map(|byte| (*byte as char).to_digit(16));
        let mut bytes = [0u8; 16];
        for byte in &mut bytes {
            let (high, low) = (digits.next().flatten(), digits.next().flatten());
            let (Some(high), Some(low)) = (high, low) else { return Err(InvalidRecordId) };
            *byte = u8::try_from(high * 16 + low).map_err(|_| InvalidRecordId)?;
        }
        Ok(Self(bytes))
    }
}
