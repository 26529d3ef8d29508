process NUMBER {
    input: val number
    output: path 'number.txt'
    script: "echo $number > number.txt"
}

process SQUARE {
    cpus 2
    input: path 'number.txt'
    output: path 'square.txt'
    script: "sleep 30; awk '{ print \$1 * \$1 }' number.txt > square.txt"
}

process TOTAL {
    publishDir '.', mode: 'copy'
    input: path 'square*.txt'
    output: path 'total.txt'
    script: "cat square*.txt | awk '{ sum += \$1 } END { print sum }' > total.txt"
}

workflow {
    Channel.of(3, 4) | NUMBER | SQUARE | collect | TOTAL
}
