// Package broker is one node wired together: the metadata, the replicas that
// this node holds, the partitions it leads, and their consumers. It routes a
// request to the partition that it is for, and makes what the node hosts match
// what the metadata says. It knows neither the wire nor HTTP.
//
// Metadata says what should be; converge makes it so. First start, restart and
// change are one path. Requests never wait for the metadata unless they change
// it: they look up what is hosted in a map that converge maintains.
package broker
