//! Who a client certificate says that it is.

use oncekey_testkit::tls::rcgen::{CertificateParams, DnType, DnValue, SanType};

use super::*;
use crate::tls::{Unreadable, identity};

fn name(authority: &Authority, change: impl FnOnce(&mut CertificateParams)) -> Result<Option<String>, Unreadable> {
    identity(&authority.issue_with(&[], change).chain()[0])
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}

#[test]
fn a_uri_goes_before_a_dns_name_and_that_before_the_subject() {
    let authority = Authority::new("root");
    let of = |names: Vec<SanType>, subject: bool| {
        name(&authority, |params| {
            params.subject_alt_names = names;
            if subject {
                params.distinguished_name.push(DnType::CommonName, "alice");
            }
        })
        .unwrap()
    };
    let mail = || SanType::Rfc822Name("alice@shop.example".try_into().unwrap());
    let all = vec![mail(), dns("A.Shop.Example"), uri("spiffe://shop/A"), uri("spiffe://shop/b")];
    assert_eq!(of(all, true).as_deref(), Some("uri:spiffe://shop/A"));
    assert_eq!(of(vec![mail(), dns("A.Shop.Example"), dns("b")], true).as_deref(), Some("dns:a.shop.example"));
    assert_eq!(of(vec![mail()], true).as_deref(), Some("dn:CN=alice"));
    assert_eq!(of(vec![mail()], false), None);
}

#[test]
fn a_subject_is_written_so_that_two_never_look_alike() {
    let authority = Authority::new("root");
    let of = |parts: &[(DnType, &str)]| {
        let parts = parts.to_vec();
        name(&authority, move |params| {
            for (kind, value) in parts {
                params.distinguished_name.push(kind, value);
            }
        })
        .unwrap()
        .unwrap()
    };
    let (org, common) = (DnType::OrganizationName, DnType::CommonName);
    assert_eq!(of(&[(org.clone(), "Shop, Inc."), (common.clone(), "a")]), "dn:CN=a,O=Shop\\, Inc.");
    assert_eq!(of(&[(common.clone(), "a,O=Shop")]), "dn:CN=a\\,O=Shop");
    assert_ne!(of(&[(org, "Shop"), (common.clone(), "a")]), of(&[(common, "a,O=Shop")]));
    assert_eq!(of(&[(DnType::CustomDnType(vec![1, 2, 3]), "x")]), "dn:1.2.3=#0c0178");
}

#[test]
fn how_a_renewal_encodes_a_subject_does_not_matter() {
    let authority = Authority::new("root");
    let of = |value: DnValue| name(&authority, |params| params.distinguished_name.push(DnType::CommonName, value));
    let utf8 = of(DnValue::Utf8String("alice".to_owned()));
    assert_eq!(utf8, Ok(Some("dn:CN=alice".to_owned())));
    assert_eq!(of(DnValue::PrintableString("alice".try_into().unwrap())), utf8);
    assert_eq!(of(DnValue::BmpString("alice".try_into().unwrap())), utf8);
}

#[test]
fn neither_key_nor_serial_number_nor_time_is_part_of_the_name() {
    let authority = Authority::new("root");
    let issued = |year| {
        name(&authority, |params| {
            params.distinguished_name.push(DnType::CommonName, "alice");
            params.not_after = oncekey_testkit::tls::rcgen::date_time_ymd(year, 1, 1);
        })
    };
    assert_eq!(issued(2100), issued(2101));
}

#[test]
fn what_is_no_certificate_has_no_name() {
    assert_eq!(identity(&vec![1, 2, 3].into()), Err(Unreadable));
}
