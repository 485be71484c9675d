//! A recorded response as stores keep it: its status beside the record, its head and its body in columns of their own.

use bytes::Bytes;
use oncekey_core::RecordedResponse;

/// Puts the parts together: `status` is the record's, `head` and `body` are the columns. No response if there is no status.
///
/// An error says what of them doesn't belong together: the record is corrupt.
pub fn response(
    status: Option<u16>,
    head: Option<&[u8]>,
    body: Option<Bytes>,
) -> Result<Option<RecordedResponse>, &'static str> {
    let (head, status) = match (head, status) {
        (None, None) => return Ok(None),
        (Some(head), Some(status)) => (head, status),
        _ => return Err("its response is missing, or is there without a status"),
    };
    let response = RecordedResponse::decode(head, body).map_err(|_| "its recorded response can't be read")?;
    if response.status.as_u16() != status {
        return Err("its recorded response has another status than the record");
    }
    Ok(Some(response))
}
