struct Order<T> {
    #[key]
    shop: T,
    #[key]
    number: u64,
    note: String,
}
