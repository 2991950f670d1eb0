package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/failure"
)

// leaves calls f with every command that has an action.
func leaves(cmd *cobra.Command, f func(*cobra.Command)) {
	if !cmd.HasSubCommands() {
		f(cmd)
	}
	for _, sub := range cmd.Commands() {
		leaves(sub, f)
	}
}

func TestUsageNamesTargetsInOneForm(t *testing.T) {
	forms := []string{string(topicForm), string(anyTopicForm), string(channelForm), string(eitherForm), string(anyForm), string(partitionForm), "NODE", "DIR", "STORE", "FILE", "ID", "NAME", "[NAME]", "USER", "[USER]"}
	operand := regexp.MustCompile(`^\[?[A-Z]`)
	twoWords := regexp.MustCompile(`TOPIC (CHANNEL|PARTITION)|brokerctl (channel|partition) \w+ \w+ \w`)
	acted := 0
	leaves(newRootCommand(&globals{}), func(cmd *cobra.Command) {
		words := strings.Fields(cmd.Use)
		for i, word := range words[1:] {
			plain := i == 0 && slices.Contains(forms, word)
			if plain && len(word) > 4 && word != "[USER]" {
				acted++
			}
			flag := strings.HasPrefix(words[i], "--")
			if operand.MatchString(word) && !plain && !flag && word != "[MESSAGE...]" && word != "[SETTING...]" && word != "RULE..." && word != "ID..." {
				t.Errorf("%s: %s is not one of %q", cmd.UseLine(), word, forms)
			}
		}
		if text := cmd.Use + cmd.Short + cmd.Long + cmd.Example; twoWords.MatchString(text) {
			t.Errorf("%s: the help has %q", cmd.CommandPath(), twoWords.FindString(text))
		}
	})
	if acted < 25 {
		t.Errorf("only %d commands act on something", acted)
	}
}

// TestEveryCommandRefusesOtherTargets passes an invalid target to every command.
func TestEveryCommandRefusesOtherTargets(t *testing.T) {
	broker := newFakeBroker(t)
	wrong := map[form][]string{
		topicForm:     {"", "/", "orders/", "/orders", "orders/0", "orders/invoice"},
		channelForm:   {"", "/", "orders", "orders/", "/invoice", "orders/invoice/0", "orders invoice 0", "orders/invoice 0"},
		eitherForm:    {"", "/", "orders/", "/invoice", "orders/invoice/0", "orders invoice 0"},
		partitionForm: {"", "/", "orders", "orders/", "/0", "orders/invoice", "orders/-1", "orders/+1", "orders/0x1", "orders/0/1", "orders 0 1", "orders/99999999999"},
	}
	leaves(newRootCommand(&globals{}), func(cmd *cobra.Command) {
		words := strings.Fields(cmd.Use)
		if len(words) < 2 {
			return
		}
		for _, text := range wrong[form(words[1])] {
			args := slices.Concat(strings.Fields(cmd.CommandPath())[1:], strings.Split(text, " "))
			exit := failure.ExitUsage
			if isCheck(cmd) {
				exit = checkExit(failure.ExitUsage)
			}
			want := cmd.CommandPath() + " requires " + words[1] + ", not "
			if r := broker.brokerctl(t, args...); r.exit != exit || !strings.Contains(r.stderr, want) {
				t.Errorf("%q: exit %d, %s, want %q", args, r.exit, r.stderr, want)
			}
		}
		if len(wrong[form(words[1])]) > 0 {
			args := strings.Fields(cmd.CommandPath())[1:]
			if r := broker.brokerctl(t, args...); r.exit != failure.ExitUsage && !isCheck(cmd) || !strings.Contains(r.stderr, "requires "+words[1]+" (usage: ") {
				t.Errorf("%q: exit %d, %s", args, r.exit, r.stderr)
			}
		}
	})
	if got := broker.changes(); len(got) != 0 {
		t.Errorf("what was refused asked for %q", got)
	}
}

func TestTargetMayBeTwoWords(t *testing.T) {
	for _, tc := range []struct {
		form form
		args string
		want target
	}{
		{topicForm, "orders", target{text: "orders", topic: "orders"}},
		{eitherForm, "orders", target{text: "orders", topic: "orders"}},
		{eitherForm, "orders/invoice", target{text: "orders/invoice", topic: "orders", channel: "invoice"}},
		{eitherForm, "orders invoice", target{text: "orders/invoice", topic: "orders", channel: "invoice"}},
		{channelForm, "orders/a#ephemeral", target{text: "orders/a#ephemeral", topic: "orders", channel: "a#ephemeral"}},
		{channelForm, "orders 0", target{text: "orders/0", topic: "orders", channel: "0"}},
		{partitionForm, "orders/12", target{text: "orders/12", topic: "orders", partition: 12}},
		{partitionForm, "orders 0", target{text: "orders/0", topic: "orders"}},
	} {
		got, err := tc.form.parse(&cobra.Command{}, strings.Fields(tc.args))
		if err != nil || got != tc.want {
			t.Errorf("%s, %s: %+v, %v", tc.form, tc.args, got, err)
		}
	}
}

func TestOneAndTwoWordTargetsAreEquivalent(t *testing.T) {
	tried := 0
	for _, one := range goldenCommands {
		if len(one) < 3 || !strings.Contains(one[2], "/") {
			continue
		}
		tried++
		two := slices.Concat(one[:2], strings.Split(one[2], "/"), one[3:])
		var asked, said [2]string
		for k, args := range [][]string{one, two} {
			broker := newFakeBroker(t)
			r := broker.brokerctl(t, args...)
			asked[k], said[k] = strings.Join(broker.changes(), "\n"), r.stdout+r.stderr
		}
		if asked[0] != asked[1] || said[0] != said[1] || said[0] == "" {
			t.Errorf("%q asks for %s and says\n%s\n%q asks for %s and says\n%s", one, asked[0], said[0], two, asked[1], said[1])
		}
	}
	if tried < 13 {
		t.Errorf("only %d commands were tried", tried)
	}
}
