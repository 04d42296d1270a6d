enum Method {
    Card,
    r#Iban,
}
