//! Header fields at a hop, without a network.

use super::*;

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

#[test]
fn what_connection_names_goes_whatever_its_case_and_spacing() {
    let mut headers = headers(&[("connection", "Close,X-A ,,\tx-b"), ("x-a", "1"), ("x-b", "2"), ("x-c", "3")]);
    end_hop(&mut headers, &Protected::default());
    assert_eq!(headers, self::headers(&[("x-c", "3")]));
}

#[test]
fn what_the_gateway_relies_on_stays() {
    let protected = Protected::new([HeaderName::from_static("x-account-id"), HeaderName::from_static("x-request-key")]);
    let kept = [
        ("x-account-id", "1"),
        ("x-request-key", "2"),
        ("idempotency-key", "3"),
        ("oncekey-operation-id", "4"),
        ("x-forwarded-proto", "https"),
    ];
    let mut headers = headers(&kept);
    let all = "x-account-id, X-Request-Key, Idempotency-Key, oncekey-operation-id, x-forwarded-proto";
    headers.insert(CONNECTION, HeaderValue::from_static(all));
    end_hop(&mut headers, &protected);
    assert_eq!(headers, self::headers(&kept));
}

#[test]
fn a_connection_field_that_is_no_list_of_names_takes_nothing_away() {
    let mut headers = headers(&[("x-a", "1")]);
    headers.insert(CONNECTION, HeaderValue::from_bytes(b"\xff\xfe, x a, (x-a)").unwrap());
    end_hop(&mut headers, &Protected::default());
    assert_eq!(headers, self::headers(&[("x-a", "1")]));
}

#[test]
fn a_list_grows_on_one_line() {
    let mut headers = headers(&[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "192.0.2.2")]);
    add_forwarded(&mut headers, Some(&HeaderValue::from_static("192.0.2.3")), "https");
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    assert_eq!(lines, ["192.0.2.1, 192.0.2.2, 192.0.2.3"]);
}
