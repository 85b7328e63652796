//! What each kind of parameter takes, and what it refuses.

use super::*;

fn query(text: &str) -> Query {
    Query::parse(text).unwrap()
}

fn reason<T: std::fmt::Debug>(result: Result<T, InvalidQuery>) -> String {
    result.unwrap_err().reason
}

#[test]
fn a_limit_is_bounded_and_a_typo_is_reported() {
    for (text, limit) in [
        ("", 10),
        ("limit=", 10),
        ("limit=0", 10),
        ("limit=7", 7),
        ("limit=1001", 1000),
        ("limit=99999999999999999999", 1000),
    ] {
        assert_eq!(query(text).limit("limit", 10).unwrap(), limit, "{text}");
    }
    for text in ["limit=-1", "limit=ten", "limit=1.5", "limit=%2B5", "limit=0x1"] {
        assert!(reason(query(text).limit("limit", 10)).starts_with("limit: "), "{text}");
    }
}

#[test]
fn a_duration_has_a_unit_or_is_in_seconds() {
    for (text, millis) in [("250ms", 250), ("30s", 30_000), ("2m", 120_000), ("45", 45_000)] {
        let parsed = query(&format!("wait={text}")).duration("wait").unwrap();
        assert_eq!(parsed, Some(Duration::from_millis(millis)), "{text}");
    }
    assert_eq!(query("wait=0").duration("wait").unwrap(), Some(Duration::ZERO));
    assert_eq!(query("wait=&x").duration("wait").unwrap(), None);
    let longest = query("wait=18446744073709551615m").duration("wait").unwrap().unwrap();
    assert!(longest > Duration::from_secs(u64::MAX / 2000));
    for text in ["s", "-1s", "%2B1s", "1.5s", "1h", "1S", "1 s", "s1", "99999999999999999999s"] {
        let message = reason(query(&format!("wait={text}")).duration("wait"));
        assert!(message.starts_with("wait: ") && message.ends_with("like 30s"), "{message}");
    }
}

#[test]
fn a_moment_is_absolute_or_back_from_now() {
    let now = || Timestamp(1_700_000_000_000_000_000);
    let second = 1_000_000_000;
    for (text, moment) in [
        ("0", 0),
        ("1700000000", 1_700_000_000 * second),
        ("1700000000.5", 1_700_000_000 * second + second / 2),
        ("2023-11-14T22:13:20Z", 1_700_000_000 * second),
        ("2026-01-31", 1_769_817_600 * second),
        ("90s", (1_700_000_000 - 90) * second),
        ("2h", (1_700_000_000 - 7200) * second),
        ("1d", (1_700_000_000 - 86_400) * second),
    ] {
        let parsed = query(&format!("since={text}")).moment("since", now).unwrap();
        assert_eq!(parsed, Some(Timestamp(moment)), "{text}");
    }
    assert_eq!(query("since=").moment("since", now).unwrap(), None);
    let longest = query("since=999999999999999999d").moment("since", now).unwrap();
    assert!(longest.is_some_and(|moment| moment < Timestamp::ZERO));
    for text in ["-1", "-0.5", "-2h", "-2026-01-31"] {
        let message = reason(query(&format!("since={text}")).moment("since", now));
        assert!(message.contains("is negative"), "{message}");
    }
    for text in ["soon", "h", "2w", "2 h", "2026-1-31", "2026-02-30", "1.5h", "2ü"] {
        let message = reason(query(&format!("since={text}")).moment("since", now));
        assert!(message.ends_with("like 2h"), "{message}");
    }
}

#[test]
fn a_number_is_digits() {
    assert_eq!(query("n=7").optional_number("n").unwrap(), Some(7));
    assert_eq!(query("n=").optional_number("n").unwrap(), None);
    assert_eq!(reason(query("").number("n")), "n is required");
    for text in ["-1", "%2B1", "x", "1.0", "18446744073709551616"] {
        let message = reason(query(&format!("n={text}")).optional_number("n"));
        assert!(message.ends_with("is not a non-negative integer"), "{message}");
    }
}

#[test]
fn a_flag_takes_words_and_numbers() {
    for text in ["reverse", "reverse=TRUE", "reverse=1", "reverse=True"] {
        assert!(query(text).flag("reverse").unwrap(), "{text}");
    }
    for text in ["", "reverse=", "reverse=False", "reverse=0"] {
        assert!(!query(text).flag("reverse").unwrap(), "{text}");
    }
    assert_eq!(
        reason(query("reverse=yes").flag("reverse")),
        "reverse: 'yes' is neither true nor false"
    );
}

#[test]
fn a_repeated_single_key_is_refused() {
    assert_eq!(
        reason(query("limit=1&limit=2").limit("limit", 10)),
        "limit is given more than once"
    );
}

#[test]
fn labels_may_be_repeated() {
    let selector = query("labels=a%3Db&labels=c+in+(d,e)").selector("labels").unwrap();
    let texts: Vec<_> = selector.requirements.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["a=b", "c in (d,e)"]);
    assert!(
        reason(query("labels=a+b").selector("labels"))
            .starts_with("labels: 'b' is not an operator")
    );
}

#[test]
fn broken_encoding_is_reported() {
    assert!(reason(Query::parse("a=%")).contains("hexadecimal"));
    assert!(reason(Query::parse("a=%4")).contains("hexadecimal"));
    assert!(reason(Query::parse("%zz=1")).contains("hexadecimal"));
    assert!(reason(Query::parse("a=%ff")).contains("not UTF-8"));
}
