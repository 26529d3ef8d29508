console.info("Clusterra");
