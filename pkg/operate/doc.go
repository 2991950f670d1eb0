// Package operate answers operators, whichever node they ask, and carries out what they
// decide: about nodes, partitions and the metadata (Operator), about topics, channels,
// messages and copies (Contents), and about one node (Node).
//
// It decides whom to ask, how answers of several nodes become one, and which acts are
// refused because they would cost availability or data. What should be it leaves to
// pkg/cluster/controller, what replicas do to pkg/host.
//
// Each question to a node is declared once, in a variable ask…, with the types that travel
// and the code that answers: the node that asks itself takes the same way.
//
// Invariants:
//
//  1. An answer for people is never late for one node's sake: who does not answer in two
//     seconds is left out, and named.
//  2. What is asked of a leader finds the next one, where the leadership has moved.
//  3. An act that loses data or availability is done only where it is forced, and is logged.
//  4. A node that waits for its cluster answers, too: from its disk, by Outlook.
//
// Start at Node, question and atLeader in node.go.
package operate
