// Package header reads the header of a message: a JSON object that its publisher
// sends beside the body. Keys that begin with ## are the broker's: they say what it is
// to do with the message. All others are the consumers', and pass through untouched.
//
// It knows JSON and the reserved keys. It refuses to know how a header comes to the
// broker and where it is stored.
package header
