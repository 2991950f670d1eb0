// Package manual writes the manual pages of a program from its commands.
//
// It knows the section of a program and the common parts of the pages. The text of a page is the
// help of its command.
package manual

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/brokerd/brokerd/internal/build"
)

// Sections of the manual.
const (
	SectionUser  = "1" // programs for everyone
	SectionAdmin = "8" // services, and programs for administrators
)

// Write writes one page for root and one for each of its commands into dir, which it creates if
// necessary.
func Write(root *cobra.Command, section, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // manual pages are for everyone
		return fmt.Errorf("create directory for manual pages: %w", err)
	}
	origin := build.This()
	date, err := time.Parse(time.RFC3339, origin.Date) //nolint:forbidigo // of the build
	if err != nil {
		date = time.Time{} // not known: the pages of one build are the same whenever they are written
	}
	off := root.DisableAutoGenTag
	root.DisableAutoGenTag = true
	defer func() { root.DisableAutoGenTag = off }()
	header := &doc.GenManHeader{Section: section, Source: root.Name() + " " + origin.Version, Manual: "brokerd", Date: &date}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	return nil
}
