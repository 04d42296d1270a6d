//! Numbers: by value for integers, by value and precision for floats.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{differ, same};

/// What `serde_json::Number` serializes to under `arbitrary_precision`.
struct Digits(&'static str);

impl Serialize for Digits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut number = serializer.serialize_struct("$serde_json::private::Number", 1)?;
        number.serialize_field("$serde_json::private::Number", self.0)?;
        number.end()
    }
}

#[test]
fn integers_are_equal_by_value_at_any_width() {
    same(&5_u8, &5_u64);
    same(&5_u32, &5_i128);
    same(&-5_i8, &-5_i128);
    same(&u64::MAX, &u128::from(u64::MAX));
    same(&0_u8, &0_i64);
}

#[test]
fn integers_of_other_values_differ() {
    let mut all: Vec<i128> = vec![0, 1, 5, 255, 256, 65_535, 65_536, i128::MAX];
    all.extend(all.clone().into_iter().map(|n| -n));
    all.push(i128::MIN);
    all.sort_unstable();
    all.dedup();
    for pair in all.windows(2) {
        differ(&pair[0], &pair[1], &["payment"]);
    }
    differ(&u128::MAX, &(u128::MAX - 1), &["payment"]);
    differ(&i128::MIN, &i128::MAX, &["payment"]);
    differ(&256, &1, &["payment"]);
}

#[test]
fn an_integer_a_float_and_a_text_differ() {
    differ(&1, &1.0, &["payment"]);
    differ(&1.0, "1.0", &["payment"]);
    differ(&1, &true, &["payment"]);
}

#[test]
fn there_is_one_zero_and_one_nan() {
    same(&0.0, &-0.0);
    same(&f64::NAN, &-f64::NAN);
    same(&f64::NAN, &f64::from_bits(0x7ff8_dead_beef_0001));
    same(&f32::NAN, &f64::NAN);
    differ(&f64::INFINITY, &f64::NEG_INFINITY, &["payment"]);
    differ(&0.0, &f64::MIN_POSITIVE, &["payment"]);
}

#[test]
fn widening_a_float_keeps_its_value_not_its_text() {
    same(&1.5_f32, &1.5_f64);
    differ(&0.1_f32, &0.1_f64, &["payment"]);
}

#[test]
fn numbers_with_all_their_digits_are_the_numbers() {
    same(&Digits("1"), &1);
    same(&Digits("-1"), &-1);
    same(&Digits("18446744073709551615"), &u64::MAX);
    same(&Digits("-9223372036854775808"), &i64::MIN);
    same(&Digits("0.1"), &0.1);
    same(&Digits("1.10"), &1.1);
    same(&Digits("1.0"), &1.0);
    same(&Digits("-0"), &0.0);
    same(&Digits("0.0"), &-0.0);
    same(&Digits("1e3"), &1000.0);
    same(&Digits("1E+3"), &1000.0);
    same(&Digits("12.5e-1"), &1.25);
    same(&Digits("5e-324"), &5e-324);
    same(&BTreeMap::from([("k", vec![Digits("2")])]), &BTreeMap::from([("k", vec![2])]));
}

#[test]
fn numbers_beyond_a_float_keep_their_digits() {
    differ(&Digits("99999999999999999999999"), &Digits("99999999999999999999998"), &["payment"]);
    same(&Digits("99999999999999999999990"), &Digits("9.999999999999999999999e22"));
    differ(&Digits("0.10000000000000000001"), &Digits("0.1"), &["payment"]);
    differ(&Digits("1e999"), &Digits("1e998"), &["payment"]);
    differ(&Digits("not a number"), &Digits("nor this"), &["payment"]);
}

#[test]
fn a_value_of_serde_json_is_the_same_as_the_typed_one() {
    #[derive(Serialize)]
    struct Line(u8, f64, String);
    let typed = Line(1, 2.5, "x".to_owned());
    same(&serde_json::to_value(&typed).unwrap(), &typed);
}
