// Package jsonbytes reads JSON that other programs wrote without changing a byte of its strings.
// encoding/json replaces bytes that are not UTF-8, and halves of surrogate pairs, by U+FFFD: different
// ids, keys and names become one. This package preserves them where a string stands for bytes
// (Text, Members, Value, AppendText), refuses them where it stands for text (Unmarshal, Check), and shows them
// where it only describes (Visible).
//
// It does not know what the JSON means.
package jsonbytes
