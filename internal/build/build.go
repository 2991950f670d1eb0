// Package build says what a program was built from.
package build

import "runtime/debug"

// Version is the release of the programs of this repository.
const Version = "0.1.0"

// Revision returns the commit of the sources; "": the program was not built from a
// repository, or without asking it.
func Revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}
