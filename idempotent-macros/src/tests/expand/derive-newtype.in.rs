struct OrderId(u64);
