package postgres_test

// execModes are pgx's query execution modes; the store works alike in all of them.
var execModes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}
