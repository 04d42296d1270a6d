//! Words to arguments.

use super::Arguments;

fn parse(words: &str) -> Result<Arguments, String> {
    Arguments::parse(words.split_whitespace().map(str::to_owned)).map_err(|it| it.to_string())
}

#[test]
fn nothing_means_all_parts_and_two_hours() {
    let all = Arguments { names: Vec::new(), minutes: 120, list: false };
    assert_eq!(parse(""), Ok(all));
}

#[test]
fn parts_and_options_stand_in_any_order() {
    let expected = Arguments { names: vec!["fuzz".into(), "model".into()], minutes: 5, list: true };
    assert_eq!(parse("fuzz --minutes 5 model --list"), Ok(expected));
}

#[test]
fn what_is_no_time_is_refused() {
    for minutes in ["", "0", "-1", "x", "1000000"] {
        let refused = parse(&format!("--minutes {minutes}")).unwrap_err();
        assert_eq!(refused, format!("`--minutes {minutes}` is not from 1 to 10080"));
    }
}

#[test]
fn an_unknown_option_is_refused() {
    assert!(parse("--hours 2").unwrap_err().contains("`--hours`"));
}
