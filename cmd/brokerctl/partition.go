package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newPartitionCommand(g *globals) *cobra.Command {
	return newGroup("partition", "Inspect partitions, and manage their leaders and replicas",
		newPartitionListCommand(g), newPartitionDescribeCommand(g), newPartitionTransferCommand(g),
		newPartitionElectCommand(g), newPartitionMoveCommand(g), newPartitionVerifyCommand(g), newPartitionRepairCommand(g))
}

// partitionName is TOPIC/NUMBER.
func partitionName(q api.Partition) string { return fmt.Sprintf("%s/%d", q.Topic, q.Partition) }
