use super::mutants;

fn names(sql: &str) -> Vec<String> {
    mutants(sql).into_iter().map(|mutant| mutant.name).collect()
}

/// The statement without the predicate of a name.
fn without(sql: &str, name: &str) -> String {
    let mut found = mutants(sql).into_iter().filter(|mutant| mutant.name == name);
    found.next().unwrap_or_else(|| panic!("{sql} has no `{name}`")).sql
}

#[test]
fn every_condition_of_a_chain_becomes_true() {
    let sql = "SELECT a FROM t WHERE b = 1 AND c < 2";
    assert_eq!(names(sql), ["b = 1 := true", "c < 2 := true"]);
    assert_eq!(without(sql, "c < 2 := true"), "SELECT a FROM t WHERE b = 1 AND ((c < 2) OR TRUE)");
}

#[test]
fn every_arm_of_an_or_becomes_false_and_what_is_inside_true() {
    let sql = "DELETE FROM t WHERE a OR b AND (c OR d)";
    let expected = [
        "a OR b AND (c OR d) := true",
        "a := false",
        "b AND (c OR d) := false",
        "b := true",
        "(c OR d) := true",
        "c := false",
        "d := false",
    ];
    assert_eq!(names(sql), expected);
    assert_eq!(without(sql, "a := false"), "DELETE FROM t WHERE ((a) AND FALSE) OR b AND (c OR d)");
}

#[test]
fn a_condition_that_is_a_value_becomes_both() {
    let sql = "SELECT a IS NULL AS b, f(c = 1) FROM t";
    let expected = ["a IS NULL := false", "a IS NULL := true", "c = 1 := false", "c = 1 := true"];
    assert_eq!(names(sql), expected);
    let sql = "UPDATE t SET a = CASE WHEN b THEN 1 END, c = d AND e WHERE f";
    let expected =
        ["b := false", "b := true", "d AND e := false", "d := true", "e := true", "f := true"];
    assert_eq!(names(sql), expected);
}

#[test]
fn what_is_assigned_and_what_is_plain_is_no_predicate() {
    assert!(names("UPDATE t SET a = 1, b = c + 1").is_empty());
    assert!(names("INSERT INTO t (a, b) VALUES ($1, $2)").is_empty());
    assert!(names("SELECT a FROM t WHERE true").is_empty());
}

#[test]
fn joins_and_subqueries_are_looked_into() {
    let sql = "WITH x AS (SELECT a FROM t WHERE b) SELECT (SELECT 1 WHERE c) \
               FROM x LEFT JOIN y ON d WHERE NOT EXISTS (SELECT FROM z WHERE e)";
    let expected = [
        "b := true",
        "c := true",
        "d := true",
        "NOT EXISTS (SELECT FROM z WHERE e) := true",
        "e := true",
    ];
    assert_eq!(names(sql), expected);
}

#[test]
fn aggregates_lose_their_filter() {
    assert_eq!(names("SELECT count(*) FILTER (WHERE a = 1) FROM t"), ["a = 1 := true"]);
}

#[test]
fn rows_are_compared_without_each_column() {
    let sql = "SELECT a FROM t WHERE (a, b) > ($1, $2)";
    let expected = [
        "(a, b) > ($1, $2) := true",
        "a := compared without, in (a, b) > ($1, $2)",
        "b := compared without, in (a, b) > ($1, $2)",
    ];
    assert_eq!(names(sql), expected);
    assert_eq!(without(sql, expected[2]), "SELECT a FROM t WHERE (a, $2) > ($1, $2)");
}

#[test]
fn a_list_lacks_each_element() {
    let sql = "SELECT a FROM t WHERE b IN (4, 5)";
    assert_eq!(without(sql, "b IN (4, 5) := without 4"), "SELECT a FROM t WHERE b IN (5)");
    assert_eq!(names(sql).len(), 3);
}

#[test]
fn clauses_fall_away_and_orders_are_turned_around() {
    let sql = "SELECT DISTINCT a FROM t ORDER BY a, b LIMIT 1 OFFSET 0 FOR UPDATE SKIP LOCKED";
    assert_eq!(
        names(sql),
        [
            "DISTINCT := away",
            "ORDER BY a, b := turned around",
            "LIMIT 1 := away",
            "OFFSET 0 := away",
            "SKIP LOCKED := away",
            "FOR UPDATE SKIP LOCKED := away",
        ]
    );
    assert!(
        without(sql, "ORDER BY a, b := turned around").contains("ORDER BY a DESC, b DESC LIMIT")
    );
    assert!(without(sql, "SKIP LOCKED := away").ends_with("FOR UPDATE "));
    let sql = "SELECT a FROM t FOR NO KEY UPDATE OF t";
    assert_eq!(names(sql), ["FOR NO KEY UPDATE OF t := away"]);
}

#[test]
fn conflicts_are_no_conditions_and_lose_do_nothing() {
    let sql = "INSERT INTO t VALUES (1) ON CONFLICT (id) DO NOTHING";
    assert_eq!(names(sql), ["ON CONFLICT (id) DO NOTHING := away"]);
    let sql = "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 1 WHERE b";
    assert_eq!(names(sql), ["b := true"]);
}

#[test]
fn those_of_one_name_are_numbered() {
    let sql = "SELECT a FROM t WHERE b = 1 UNION ALL SELECT a FROM u WHERE b = 1";
    assert_eq!(names(sql), ["b = 1 := true", "b = 1 := true #2"]);
    assert!(without(sql, "b = 1 := true #2").ends_with("WHERE ((b = 1) OR TRUE)"));
}

#[test]
fn what_is_spliced_in_twice_is_one_inside_and_two_as_a_whole() {
    let sql = "UPDATE t SET x = CASE WHEN (a OR b) THEN 1 END, y = CASE WHEN (a OR b) THEN 2 END";
    let expected = [
        "(a OR b) := false",
        "(a OR b) := true",
        "a := false",
        "b := false",
        "(a OR b) := false #2",
        "(a OR b) := true #2",
    ];
    assert_eq!(names(sql), expected);
    assert_eq!(without(sql, "a := false").matches("(((a) AND FALSE) OR b)").count(), 2);
    assert_eq!(without(sql, "(a OR b) := false #2").matches("AND FALSE").count(), 1);
}

#[test]
fn a_splice_within_a_splice_is_one_at_all_its_places() {
    let inner = "(a OR b)";
    let outer = format!("({inner} AND c)");
    let sql = format!(
        "UPDATE t SET v = {inner}, x = CASE WHEN {outer} THEN 1 END, y = CASE WHEN {outer} THEN 2 END"
    );
    assert_eq!(without(&sql, "a := false").matches("((a) AND FALSE)").count(), 3);
    assert_eq!(without(&sql, "c := true").matches("((c) OR TRUE)").count(), 2);
    let whole = without(&sql, "(a OR b) := true");
    assert_eq!(whole.matches("(((a OR b)) OR TRUE)").count(), 2, "{whole}");
}

#[test]
fn subqueries_that_are_alike_stay_apart() {
    let sql = "SELECT 1 WHERE EXISTS (SELECT a WHERE b AND c) AND EXISTS (SELECT a WHERE b AND c)";
    assert_eq!(names(sql).iter().filter(|name| name.starts_with("b :=")).count(), 2);
}

#[test]
#[should_panic(expected = "not understood")]
fn what_is_not_understood_is_refused() {
    let _ = mutants("SELECT a FROM t JOIN u USING (a)");
}
