//! Parsing: case, nulls, wrong types, and bodies that are not JSON.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Outer {
    name: Option<String>,
    size: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    inner: Option<Vec<Inner>>,
    words: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Inner {
    flag: Option<bool>,
    value: Option<serde_json::Value>,
}

fn outer(body: &str) -> Reading<Outer> {
    read(body.as_bytes(), Author::Person, Texts::WithoutNul).unwrap()
}

fn problems(body: &str) -> Vec<(String, String)> {
    outer(body).problems.into_iter().map(|problem| (problem.path, problem.reason)).collect()
}

#[test]
fn fields_match_in_any_case_and_map_keys_keep_theirs() {
    let reading = outer(r#"{"NAME":"x","labels":{"aB":"c","Ab":"d"},"inner":[{"fLaG":true}]}"#);
    assert_eq!(reading.value.name.as_deref(), Some("x"));
    let labels = reading.value.labels.unwrap();
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["Ab", "aB"]);
    assert_eq!(reading.value.inner.unwrap()[0].flag, Some(true));
    assert_eq!(reading.problems, []);
}

#[test]
fn null_is_absent_but_not_in_an_array_of_strings() {
    let reading = outer(r#"{"Name":null,"words":null,"inner":null}"#);
    assert_eq!(reading.value, Outer::default());
    assert_eq!(reading.problems, []);
    assert_eq!(
        problems(r#"{"Words":["a",null]}"#),
        [("Words[1]".to_owned(), "expected a string, got null".to_owned())]
    );
}

#[test]
fn every_wrong_type_is_reported_at_once() {
    let found = problems(
        r#"{"Name":5,"Size":"big","Labels":{"a":1},"Inner":[{"Flag":"yes"},7],"Words":{}}"#,
    );
    let expected = [
        ("Name", "expected a string, got the number 5"),
        ("Size", "expected a 64-bit integer, got the string \"big\""),
        ("Labels.a", "expected a string, got the number 1"),
        ("Inner[0].Flag", "expected true or false, got the string \"yes\""),
        ("Inner[1]", "expected an object, got the number 7"),
        ("Words", "expected an array, got an object"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(path, reason)| ((*path).to_owned(), (*reason).to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn numbers_out_of_range_are_wrong_types() {
    for number in ["9223372036854775808", "1.5", "1e30", "-9223372036854775809"] {
        assert_eq!(problems(&format!(r#"{{"Size":{number}}}"#)).len(), 1, "{number}");
    }
    assert_eq!(outer(r#"{"Size":-9223372036854775808}"#).value.size, Some(i64::MIN));
}

#[test]
fn a_duplicate_field_is_reported_even_if_its_case_differs() {
    for body in [r#"{"Name":"a","name":"b"}"#, r#"{"Name":"a","Name":"b"}"#] {
        assert_eq!(
            problems(body),
            [("Name".to_owned(), "is given more than once".to_owned())],
            "{body}"
        );
    }
    assert_eq!(problems(r#"{"Labels":{"a":"1","a":"2"}}"#)[0].0, "Labels.a");
}

#[test]
fn unknown_fields_are_listed_with_their_path() {
    let reading = outer(r#"{"Foo":1,"Inner":[{"Bar":{"deep":[]}}],"Labels":{"Any":"x"}}"#);
    assert_eq!(reading.unknown, ["Foo", "Inner[0].Bar"]);
    assert_eq!(reading.problems, []);
}

#[test]
fn nul_is_refused_in_strings_and_keys() {
    let found = problems(
        r#"{"Name":"a\u0000b","Labels":{"k\u0000":"v"},"Inner":[{"Value":{"x":["\u0000"]}}]}"#,
    );
    let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["Name", "Labels", "Inner[0].Value.x[0]"]);
}

#[test]
fn a_body_that_is_not_json_is_refused_with_the_reason() {
    let deep = "[".repeat(200);
    let many = format!("[{}0]", "0,".repeat(250_000));
    let bodies: [(&[u8], &str); 8] = [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b"{\"Name\":\"\xff\"}", "the body is not UTF-8 at byte 10"),
        (b"{\"Name\":", "the body is not JSON: EOF while parsing a value at line 1 column 8"),
        (b"{} x", "the body is not JSON: trailing characters at line 1 column 4"),
        (
            br#"{"Name":"\ud800"}"#,
            "the body is not JSON: unexpected end of hex escape at line 1 column 16",
        ),
        (deep.as_bytes(), "the body is not JSON: recursion limit exceeded at line 1 column 128"),
        (
            many.as_bytes(),
            "the body is not JSON: it holds more than 250000 values at line 1 column 499999",
        ),
    ];
    for (body, reason) in bodies {
        let unreadable = read::<Outer>(body, Author::Person, Texts::Any).unwrap_err();
        assert_eq!(unreadable, Unreadable::Malformed(reason.to_owned()));
    }
}

#[test]
fn a_missing_or_unknown_word_is_reported_with_its_path() {
    #[derive(Debug, Deserialize)]
    struct Strict {
        #[expect(dead_code, reason = "only whether it can be read matters")]
        items: Vec<Item>,
    }
    #[derive(Debug, Deserialize)]
    struct Item {
        #[expect(dead_code, reason = "only whether it can be read matters")]
        engine: api_types::engine::EngineType,
    }
    let shape =
        |body: &str| match read_strictly::<Strict>(body.as_bytes(), Author::Person).unwrap_err() {
            Unreadable::Shape(problems) => format!("{}: {}", problems[0].path, problems[0].reason),
            Unreadable::Malformed(reason) => reason,
        };
    assert_eq!(shape(r#"{"items":[{"engine":"docker"},{}]}"#), "items[1]: missing field `engine`");
    assert!(
        shape(r#"{"items":[{"engine":"x"}]}"#).starts_with("items[0].engine: unknown variant `x`")
    );
}

#[test]
fn what_programs_write_is_read_to_the_letter() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Beat {
        session: u64,
        used: Used,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Used {
        cores: f64,
    }
    // With an array, it is read another way.
    for more in ["", r#","More":null"#, r#","More":[]"#] {
        let beat = |fields: &str| {
            read_strictly::<Beat>(format!("{{{fields}{more}}}").as_bytes(), Author::Program)
        };
        let read = Beat { session: 1, used: Used { cores: 2.0 } };
        assert_eq!(beat(r#""Session":1,"Used":{"Cores":2}"#), Ok(read));
        for (fields, path) in [
            (r#""Session":1,"Used":[2]"#, "Used"),
            (r#""Session":-1,"Used":{"Cores":2}"#, "Session"),
            (r#""Session":null,"Used":{"Cores":2}"#, "Session"),
            (r#""session":1,"Used":{"Cores":2}"#, ""),
            (r#""Session":1,"Session":1,"Used":{"Cores":2}"#, "Session"),
            (r#""Session":1,"Used":{"Cores":"2"}"#, "Used.Cores"),
        ] {
            let Err(Unreadable::Shape(problems)) = beat(fields) else { panic!("{fields}{more}") };
            assert_eq!(problems[0].path, path, "{fields}{more}");
        }
    }
}

#[test]
fn keys_and_texts_with_escapes_are_read_like_others() {
    let reading = outer(r#"{"N\u0061me":"a\tb","labels":{"k\"":"v\u00e9"},"\u0058":1}"#);
    assert_eq!(reading.value.name.as_deref(), Some("a\tb"));
    assert_eq!(reading.value.labels.unwrap()["k\""], "vé");
    assert_eq!(reading.unknown, ["X"]);
    let twice = problems(r#"{"Name":"a","N\u0061me":"b"}"#);
    assert_eq!(twice, [("Name".to_owned(), "is given more than once".to_owned())]);
}
