//! The environment's two numbers.

use std::time::Duration;

use super::{FROM, SECONDS, Settings};

fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
    Settings::read(|name| {
        variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn a_person_gets_a_minute_from_the_start() {
    assert_eq!(read(&[]), Ok(Settings { from: 0, time: Duration::from_secs(60) }));
}

#[test]
fn the_environment_rules() {
    let settings = read(&[(FROM, "12"), (SECONDS, "3600")]);
    assert_eq!(settings, Ok(Settings { from: 12, time: Duration::from_secs(3_600) }));
}

#[test]
fn what_is_no_number_is_named() {
    assert_eq!(read(&[(FROM, "-1")]), Err(format!("{FROM}=-1 is no number")));
    assert_eq!(read(&[(SECONDS, "1m")]), Err(format!("{SECONDS}=1m is no number")));
}
